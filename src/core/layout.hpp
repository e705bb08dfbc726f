// layout.hpp: the one type that knows every offset: arena, local memory and context of a rank.
//
// Offsets are 64-bit bytes; sizes come from Sizes alone. The arena is what other ranks reach; the local
// memory follows it in the same workspace; each context is an allocation of its own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/sizes.hpp"

namespace mok {

// Sizes that core cannot know by itself: words of the protocol, tables, a worker's scratch.
struct LayoutExtras {
  std::uint64_t num_flags = 0;
  std::uint64_t num_host_words = 0;
  std::uint64_t num_counters = 0;
  std::uint64_t tables_bytes = 0;
  std::uint64_t workers = 1;
  std::uint64_t worker_scratch_bytes = 0;
};

struct ArenaLayout {
  std::uint64_t flags = 0;         // u64 [num_flags]
  std::uint64_t host_words = 0;    // u64 [num_host_words]
  std::uint64_t counts = 0;        // u32 [R][E]
  std::uint64_t sorted_slots = 0;  // u32 [T*k]
  std::uint64_t weights = 0;       // f32 [T*k]
  std::uint64_t x = 0;             // bf16 [T, H]
  std::uint64_t dy = 0;            // bf16 [T, H]
  std::uint64_t x_ring = 0;        // bf16 [ring_rows, H]
  std::uint64_t dy_ring = 0;       // bf16 [ring_rows, H]
  std::uint64_t out_ring = 0;      // bf16 [ring_rows, H], combine push or pull only
  std::uint64_t dw_ring = 0;       // f32 [ring_rows], combine push or pull only
  std::uint64_t routes = 0;        // RowRoute [route_rows]
  std::uint64_t row_weights = 0;   // f32 [route_rows]
  std::uint64_t landing = 0;       // bf16 [T*k, H]: y or dX rows, by slot
  std::uint64_t dw_landing = 0;    // f32 [T*k]
  std::uint64_t bytes = 0;
};

struct LocalLayout {                  // offsets from the start of the local memory
  std::uint64_t hidden_ring = 0;      // bf16 [ring_rows, I]: hidden, or w*h
  std::uint64_t gate_ring = 0;        // bf16 [ring_rows, I]: gate, then d_gate
  std::uint64_t up_ring = 0;          // bf16 [ring_rows, I]: up, then d_up
  std::uint64_t partials = 0;         // f32 [ring_rows, partials]
  std::uint64_t spill = 0;            // f32 [2][3*H*I]: segment and sum of a split expert
  std::uint64_t shared_hidden = 0;    // bf16 [T, S]
  std::uint64_t shared_gate = 0;      // bf16 [T, S]: replayed gate, then d_gate
  std::uint64_t shared_up = 0;        // bf16 [T, S]
  std::uint64_t shared_partials = 0;  // f32 [T, shared_partials]
  std::uint64_t shared_out = 0;       // bf16 [T, H]
  std::uint64_t shared_scale = 0;     // f32 [T]: s
  std::uint64_t shared_dz = 0;        // f32 [T]
  std::uint64_t counters = 0;         // u32 [num_counters]
  std::uint64_t cursors = 0;          // u32: compute and comm queue, a line each
  std::uint64_t sort = 0;             // u32 [E]: cursors of the counting sort
  std::uint64_t ids = 0;              // i32 [T*k]
  std::uint64_t tables = 0;           // tables of a call without a context
  std::uint64_t scratch = 0;          // per worker
  std::uint64_t bytes = 0;
};

// Two allocations: what every backward needs, and what can be computed again.
struct ContextLayout {
  std::uint64_t tables = 0;
  std::uint64_t ids = 0;      // i32 [T*k]
  std::uint64_t weights = 0;  // f32 [T*k]
  std::uint64_t kept_bytes = 0;

  std::uint64_t x = 0;            // bf16 [saved_rows, H]
  std::uint64_t gate = 0;         // bf16 [saved_rows, I]
  std::uint64_t up = 0;           // bf16 [saved_rows, I]
  std::uint64_t shared_gate = 0;  // bf16 [T, S], policy all
  std::uint64_t shared_up = 0;    // bf16 [T, S], policy all
  std::uint64_t saved_bytes = 0;
};

struct LayoutTerm {
  std::string name;
  std::uint64_t bytes;
};

struct Layout {
  ArenaLayout arena;
  LocalLayout local;
  ContextLayout context;
  std::vector<LayoutTerm> workspace_terms;
  std::vector<LayoutTerm> context_terms;

  [[nodiscard]] std::uint64_t workspace_bytes() const {
    return Carver::add(arena.bytes, local.bytes);
  }
};

Layout make_layout(const Sizes& sizes, const LayoutExtras& extras, Save save);

}  // namespace mok
