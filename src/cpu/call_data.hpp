// call_data.hpp: one call of one rank on the CPU machine: the program's view plus where the bytes lie.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>

#include "core/bf16.hpp"
#include "core/layout.hpp"
#include "cpu/engine/engine.hpp"
#include "mok/layer.hpp"
#include "program/call.hpp"
#include "route/tables.hpp"

namespace mok::cpu {

using View = CallView<Geometry>;

struct CallData {
  View view;
  const Sizes* sizes = nullptr;
  const Layout* layout = nullptr;
  std::byte* const* arenas = nullptr;  // [R]
  std::byte* local = nullptr;
  // The context's saved rows: written by forward and recompute, read by backward.
  std::byte* saved = nullptr;
  const Engine* engine = nullptr;
  float limit = std::numeric_limits<float>::infinity();  // SwiGLU clamp
  const std::int32_t* ids = nullptr;                     // [tokens, k]
  const float* router = nullptr;                         // [tokens, k]
  const Bf16* x = nullptr;                               // caller's
  const Bf16* dy = nullptr;
  Weights weights;
  Bf16* out = nullptr;        // y or dx
  float* d_router = nullptr;  // backward
  WeightGrads grads;

  template <class T>
  [[nodiscard]] T* arena(std::uint32_t rank, std::uint64_t offset) const {
    return reinterpret_cast<T*>(arenas[rank] + offset);
  }
  template <class T>
  [[nodiscard]] T* own(std::uint64_t offset) const {
    return arena<T>(view.routes.rank, offset);
  }
  template <class T>
  [[nodiscard]] T* mine(std::uint64_t offset) const {
    return reinterpret_cast<T*>(local + offset);
  }
  template <class T>
  [[nodiscard]] T* context(std::uint64_t offset) const {
    return reinterpret_cast<T*>(saved + offset);
  }
  [[nodiscard]] std::int64_t hidden() const { return view.hidden; }
  [[nodiscard]] std::int64_t intermediate() const { return view.intermediate; }

  // Row of a ring whose phase p lies in cell p mod cells.
  [[nodiscard]] std::uint64_t ring_row_of(const BlockRecord& block) const {
    const RouteView& r = view.routes;
    return ring_row(r, view.geo.cells, block.phase, r.phases[block.phase].row0, block.row0);
  }
  // Row routes and row weights live three times as long as a cell (docs/protocol.md).
  [[nodiscard]] std::uint64_t route_row_of(const BlockRecord& block) const {
    const RouteView& r = view.routes;
    return ring_row(r, 3 * view.geo.cells, block.phase, r.phases[block.phase].row0, block.row0);
  }
  // Is the block kept in the context? Then its x, gate and up lie there, not in the rings.
  [[nodiscard]] bool is_saved(std::uint32_t block) const {
    return saved != nullptr && block < view.routes.saved_blocks;
  }
  [[nodiscard]] Bf16* x_rows(std::uint32_t block) const {
    const BlockRecord& b = view.routes.blocks[block];
    return is_saved(block) ? context<Bf16>(layout->context.x) + std::uint64_t{b.row0} * view.hidden
                           : own<Bf16>(layout->arena.x_ring) + ring_row_of(b) * view.hidden;
  }
  [[nodiscard]] Bf16* gate_rows(std::uint32_t block) const {
    const BlockRecord& b = view.routes.blocks[block];
    return is_saved(block)
               ? context<Bf16>(layout->context.gate) + std::uint64_t{b.row0} * view.intermediate
               : gate_ring_rows(block);
  }
  [[nodiscard]] Bf16* up_rows(std::uint32_t block) const {
    const BlockRecord& b = view.routes.blocks[block];
    return is_saved(block)
               ? context<Bf16>(layout->context.up) + std::uint64_t{b.row0} * view.intermediate
               : up_ring_rows(block);
  }
  [[nodiscard]] Bf16* local_ring_rows(std::uint64_t offset, std::uint32_t block) const {
    return mine<Bf16>(offset) + ring_row_of(view.routes.blocks[block]) * view.intermediate;
  }
  [[nodiscard]] Bf16* gate_ring_rows(std::uint32_t block) const {
    return local_ring_rows(layout->local.gate_ring, block);
  }
  [[nodiscard]] Bf16* up_ring_rows(std::uint32_t block) const {
    return local_ring_rows(layout->local.up_ring, block);
  }
  [[nodiscard]] Bf16* hidden_ring_rows(std::uint32_t block) const {
    return local_ring_rows(layout->local.hidden_ring, block);
  }
  [[nodiscard]] Bf16* dy_rows(std::uint32_t block) const {
    return own<Bf16>(layout->arena.dy_ring) + ring_row_of(view.routes.blocks[block]) * view.hidden;
  }
  [[nodiscard]] Bf16* out_rows(std::uint32_t block) const {
    return own<Bf16>(layout->arena.out_ring) + ring_row_of(view.routes.blocks[block]) * view.hidden;
  }
};

// Matrix of one expert in the caller's layout.
inline const Bf16* expert_matrix(const ExpertMatrix& m, std::uint32_t expert) {
  return m.table != nullptr ? m.table[expert]
                            : m.base + static_cast<std::int64_t>(expert) * m.expert_stride;
}

// What a worker owns during a call: accumulators, packing memory, transfer counts.
struct WorkerScratch {
  alignas(64) float acc[kMaxTileRows * kMaxTileCols];
  alignas(64) float sum[kMaxTileRows * kMaxTileCols];
  Scratch packing;
};
struct WorkerCounts {
  TransferCounts dispatch, combine, dy_dispatch, dx_combine;
};
struct Worker {
  WorkerScratch* scratch = nullptr;
  std::uint64_t* life = nullptr;  // the rank's sign of life
  float* row = nullptr;           // f32 [H]
  WorkerCounts counts;

  // Bodies without a bound on their length call this as they go; every task's end does too.
  void show_life() const { std::atomic_ref(*life).fetch_add(1, std::memory_order_relaxed); }
};

}  // namespace mok::cpu
