// tables_world.hpp: the route tables of every rank of a group, built as a machine builds them, in
// dirty memory whose gaps are watched.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "core/sizes.hpp"
#include "route/build.hpp"
#include "support/batch.hpp"

namespace mok::testing {

inline constexpr std::byte kDirt{0xa5};

// A geometry of a few rows, so that small worlds have many blocks, phases and stripes.
inline Geometry small_geometry(std::uint32_t look_ahead) {
  return Geometry{.block_rows = 4,
                  .row_pad = 2,
                  .tile_cols = 8,
                  .wgrad_rows = 4,
                  .stripe_rows = 2,
                  .token_stripe = 2,
                  .partial_cols = 4,
                  .look_ahead = look_ahead,
                  .segment_rows = 8,
                  .cells = look_ahead + 1};
}

inline Sizes table_sizes(const Geometry& geo, std::uint32_t num_ranks, std::uint32_t experts,
                         std::uint32_t topk, std::uint32_t most_tokens) {
  LayerShape shape{.max_tokens = most_tokens,
                   .hidden = 8,
                   .intermediate = 8,
                   .experts = experts,
                   .topk = topk,
                   .swiglu_limit = {}};
  Options options;
  options.ring_rows = std::int64_t{geo.cells} * geo.block_rows;
  options.saved_rows = 0;
  return make_sizes(shape, options, static_cast<int>(num_ranks), geo);
}

// Storage of one rank's tables.
class TableMemory {
 public:
  explicit TableMemory(const Sizes& sizes) : sizes_(sizes), at_(make_tables_layout(sizes)) {
    bytes_.assign(at_.bytes + kGuard, kDirt);
  }
  [[nodiscard]] TableStorage storage() { return TableStorage{bytes_.data(), at_}; }
  [[nodiscard]] const TablesLayout& at() const { return at_; }

  // Whether no table has written beyond its end.
  [[nodiscard]] bool gaps_untouched() const {
    const Sizes& s = sizes_;
    const TablesLayout& t = at_;
    const std::uint64_t ends[][2] = {
        {t.counts + s.num_ranks * s.experts * 4, t.source_prefix},
        {t.source_prefix + s.local_experts * (s.num_ranks + 1) * 4, t.slot_offset},
        {t.slot_offset + s.num_ranks * s.local_experts * 4, t.expert_row0},
        {t.expert_row0 + (s.local_experts + 1) * 4, t.blocks},
        {t.blocks + s.max_blocks * sizeof(BlockRecord), t.phases},
        {t.phases + (s.max_blocks + 1) * sizeof(PhaseRecord), t.parts},
        {t.parts + s.max_blocks * sizeof(PartRecord), t.empty_experts},
        {t.empty_experts + s.local_experts * 4, t.rows_of},
        {t.rows_of + s.num_ranks * 4, t.sorted_slots},
        {t.sorted_slots + s.slots * 4, t.own_offset},
        {t.own_offset + (s.experts + 1) * 4, t.own_prefix},
        {t.own_prefix + s.experts * 4, t.global_row0},
        {t.global_row0 + s.experts * 4, t.records},
        {t.records + (s.max_records + 1) * sizeof(ExchangeRecord), t.record0},
        {t.bytes, t.bytes + kGuard}};
    return std::all_of(std::begin(ends), std::end(ends), [&](const std::uint64_t(&gap)[2]) {
      return gap[0] <= gap[1] && std::all_of(bytes_.begin() + static_cast<std::ptrdiff_t>(gap[0]),
                                             bytes_.begin() + static_cast<std::ptrdiff_t>(gap[1]),
                                             [](std::byte b) { return b == kDirt; });
    });
  }

 private:
  static constexpr std::uint64_t kGuard = 256;
  Sizes sizes_;
  TablesLayout at_;
  std::vector<std::byte> bytes_;
};

// All ranks' tables. `only`: derive these ranks (empty: all); the others have counts only.
struct TablesWorld {
  std::vector<TableMemory> memory;
  std::vector<RouteView> views;

  TablesWorld(const Geometry& geo, const Batch& batch, const PartitionRule& rule,
              const std::vector<std::uint32_t>& only = {}) {
    const std::uint32_t most = *std::max_element(batch.tokens.begin(), batch.tokens.end());
    const Sizes sizes = table_sizes(geo, batch.num_ranks, batch.experts, batch.topk, most);
    std::vector<std::uint32_t> counts(std::size_t{batch.num_ranks} * batch.experts);
    std::vector<std::vector<std::uint32_t>> sorted(batch.num_ranks);
    std::vector<std::uint32_t> cursor(batch.experts);
    for (std::uint32_t rank = 0; rank < batch.num_ranks; ++rank) {
      sorted[rank].resize(batch.ids[rank].size());
      sort_slots(batch.ids[rank].data(), static_cast<std::uint32_t>(batch.ids[rank].size()),
                 batch.experts, counts.data() + std::size_t{rank} * batch.experts,
                 sorted[rank].data(), cursor.data());
    }
    std::vector<std::uint32_t> ranks = only;
    for (std::uint32_t rank = 0; only.empty() && rank < batch.num_ranks; ++rank) {
      ranks.push_back(rank);
    }
    memory.reserve(ranks.size());
    for (const std::uint32_t rank : ranks) {
      TableStorage storage = memory.emplace_back(sizes).storage();
      std::copy(counts.begin(), counts.end(), storage.words(storage.at.counts));
      std::copy(sorted[rank].begin(), sorted[rank].end(), storage.words(storage.at.sorted_slots));
      views.push_back(derive_tables(
          geo, BuildInput{rank, batch.num_ranks, batch.experts, batch.topk, rule}, storage));
    }
  }
};

}  // namespace mok::testing
