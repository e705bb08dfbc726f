// sizes.hpp: every count that memory depends on, from shape and options alone, never from routing.
#pragma once

#include <cstdint>

#include "core/carver.hpp"
#include "core/geometry.hpp"
#include "mok/shape.hpp"

namespace mok {

struct Sizes {
  std::uint64_t num_ranks = 1;
  std::uint64_t tokens = 0;  // T_max
  std::uint64_t topk = 0;
  std::uint64_t slots = 0;  // tokens * topk
  std::uint64_t hidden = 0;
  std::uint64_t intermediate = 0;
  std::uint64_t shared_intermediate = 0;
  std::uint64_t experts = 0;
  std::uint64_t local_experts = 0;  // most of any rank
  std::uint64_t ring_rows = 0;      // cells * cell_rows
  std::uint64_t cell_rows = 0;
  std::uint64_t route_rows = 0;   // 3 * ring_rows: row routes outlive the x cell (docs/protocol.md)
  std::uint64_t saved_rows = 0;   // 0 with policy none
  std::uint64_t max_blocks = 0;   // any routing: R*T*k rows at one rank
  std::uint64_t max_records = 0;  // most phases of all ranks together
  std::uint64_t shared_blocks = 0;
  std::uint64_t partials = 0;         // dw partial sums a row
  std::uint64_t shared_partials = 0;  // the same for the shared expert
  bool out_ring = false;              // y and dx rows wait in a ring (combine push or pull)
};

inline Sizes make_sizes(const LayerShape& shape, const Options& options, int num_ranks,
                        const Geometry& geo) {
  const auto u64 = [](std::int64_t value) { return static_cast<std::uint64_t>(value); };
  Sizes s;
  s.num_ranks = u64(num_ranks);
  s.tokens = u64(shape.max_tokens);
  s.topk = u64(shape.topk);
  s.slots = Carver::mul(s.tokens, s.topk);
  s.hidden = u64(shape.hidden);
  s.intermediate = u64(shape.intermediate);
  s.shared_intermediate = u64(shape.shared_intermediate);
  s.experts = u64(shape.experts);
  s.local_experts = ceil_div(s.experts, s.num_ranks);
  const std::int64_t ring =
      options.ring_rows > 0 ? options.ring_rows : default_ring_rows(shape, num_ranks);
  s.cell_rows = u64(ring) / geo.cells / geo.row_pad * geo.row_pad;
  s.ring_rows = s.cell_rows * geo.cells;
  s.route_rows = 3 * s.ring_rows;
  const std::int64_t saved =
      options.saved_rows >= 0 ? options.saved_rows : default_saved_rows(shape, num_ranks);
  s.saved_rows = options.save == Save::kNone ? 0 : u64(saved);
  const std::uint64_t most_rows = Carver::mul(s.num_ranks, s.slots);
  // Each expert may end with a short block, and one block is cut where the saved rows end.
  s.max_blocks = Carver::add(most_rows / geo.block_rows, s.local_experts + 1);
  s.max_records = Carver::add(most_rows / geo.block_rows, s.experts + s.num_ranks);
  s.shared_blocks = ceil_div(s.tokens, std::uint64_t{geo.block_rows});
  s.partials = ceil_div(s.intermediate, std::uint64_t{geo.partial_cols});
  s.shared_partials = ceil_div(s.shared_intermediate, std::uint64_t{geo.partial_cols});
  s.out_ring = options.combine != Combine::kScatter || options.dx_combine != Combine::kScatter;
  return s;
}

}  // namespace mok
