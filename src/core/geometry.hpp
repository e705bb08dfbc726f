// geometry.hpp: the numbers that cut a layer into blocks, tiles and phases.
//
// The GPU uses StaticGeometry (constants in the code); the CPU machine and the simulator use Geometry
// (values at run time), so that small cases can be exhausted. Both are read as `geo.block_rows`.
#pragma once

#include <cstdint>

#include "core/host_device.hpp"

namespace mok {

struct StaticGeometry {
  static constexpr std::uint32_t block_rows = 128;     // rows of a block, all of one expert
  static constexpr std::uint32_t row_pad = 64;         // each expert's rows are padded to this
  static constexpr std::uint32_t tile_cols = 256;      // columns of a GEMM tile
  static constexpr std::uint32_t wgrad_rows = 128;     // rows of a weight gradient tile
  static constexpr std::uint32_t stripe_rows = 16;     // rows a transfer task moves
  static constexpr std::uint32_t token_stripe = 16;    // tokens a reduce task writes
  static constexpr std::uint32_t partial_cols = 64;    // columns of one partial sum of dw
  static constexpr std::uint32_t look_ahead = 2;       // phases that transfers may run ahead
  static constexpr std::uint32_t segment_rows = 8192;  // weight gradients: rows of an fp32 segment
  static constexpr std::uint32_t cells = look_ahead + 1;  // ring cells; a cell holds one phase
};

struct Geometry {
  std::uint32_t block_rows = StaticGeometry::block_rows;
  std::uint32_t row_pad = StaticGeometry::row_pad;
  std::uint32_t tile_cols = StaticGeometry::tile_cols;
  std::uint32_t wgrad_rows = StaticGeometry::wgrad_rows;
  std::uint32_t stripe_rows = StaticGeometry::stripe_rows;
  std::uint32_t token_stripe = StaticGeometry::token_stripe;
  std::uint32_t partial_cols = StaticGeometry::partial_cols;
  std::uint32_t look_ahead = StaticGeometry::look_ahead;
  std::uint32_t segment_rows = StaticGeometry::segment_rows;
  std::uint32_t cells = StaticGeometry::cells;
};

template <class Int>
MOK_HD constexpr Int ceil_div(Int value, Int by) {
  return (value + by - 1) / by;
}
template <class Int>
MOK_HD constexpr Int round_up(Int value, Int by) {
  return ceil_div(value, by) * by;
}

// Experts are split over ranks in contiguous ranges; the first E % R ranks own one more.
MOK_HD constexpr std::uint32_t expert_begin(std::uint32_t experts, std::uint32_t num_ranks,
                                            std::uint32_t rank) {
  const std::uint32_t each = experts / num_ranks;
  const std::uint32_t rest = experts % num_ranks;
  return rank * each + (rank < rest ? rank : rest);
}
MOK_HD constexpr std::uint32_t local_experts(std::uint32_t experts, std::uint32_t num_ranks,
                                             std::uint32_t rank) {
  return expert_begin(experts, num_ranks, rank + 1) - expert_begin(experts, num_ranks, rank);
}

}  // namespace mok
