// tables.hpp: what routing produces. Plain records and one view of pointers, for host and device.
//
// Row order at a rank is (local expert, source rank, token, slot), each expert padded to row_pad rows:
// the global token order, hence independent of R. A block is up to block_rows rows of one expert, a
// phase a run of whole blocks that fits one ring cell, a part the piece of one expert in one phase.
#pragma once

#include <cstdint>

#include "core/geometry.hpp"
#include "core/host_device.hpp"

namespace mok {

struct alignas(16) BlockRecord {
  std::uint32_t row0;          // first padded row
  std::uint16_t expert;        // local expert
  std::uint16_t first_source;  // rank that owns the first row
  std::uint32_t phase;
  std::uint16_t rows;         // real rows, >= 1
  std::uint16_t padded_rows;  // rows + pad rows
};
static_assert(sizeof(BlockRecord) == 16);

struct alignas(16) PhaseRecord {
  std::uint32_t row0;  // first padded row
  std::uint32_t first_block;
  std::uint32_t first_part;
  std::uint32_t unused;
};
static_assert(sizeof(PhaseRecord) == 16);

inline constexpr std::uint32_t kNoPhase = 0xffffffffU;

// How a weight gradient tile of this part treats the fp32 accumulator.
struct alignas(16) PartRecord {
  std::uint32_t expert;  // local expert
  std::uint32_t first_block;
  std::uint32_t num_blocks : 30;
  std::uint32_t reload : 1;  // starts from the accumulator that the previous part spilled
  std::uint32_t spill : 1;   // leaves its accumulator for the next part
  std::uint32_t wait_phase;  // phase that used the spill memory before, or kNoPhase
};
static_assert(sizeof(PartRecord) == 16);

// Which rows of a call's x dispatch move: all (forward), those of saved blocks (recompute), or those of
// the other blocks (backward, replay).
enum class Window : std::uint32_t { kAll = 0, kSaved = 1, kReplay = 2 };

// This rank's rows in one phase of one peer: what a push sends there, what an owner pulls from there.
struct ExchangeRecord {
  // Stripes before this record, by Window. A record that takes part has at least one, so that its flag
  // is always sent.
  std::uint32_t stripe0[3];
  std::uint32_t rows;          // this rank's rows in the peer's phase
  std::uint32_t saved_rows;    // how many of them lie in saved blocks of the peer (a prefix)
  std::uint32_t first_expert;  // global expert of the first row
  std::uint32_t first_index;   // its place among this rank's rows of that expert
  std::uint32_t peer;
  std::uint32_t phase;
  std::uint32_t phase_row0;  // first padded row of the phase at the peer
};

// Where a row comes from and where its result goes. Pad rows have no owner.
struct RowRoute {
  std::uint32_t owner;  // rank
  std::uint32_t slot;   // token * k + slot at that rank
};
inline constexpr std::uint32_t kNoOwner = 0xffffffffU;

struct RouteView {
  std::uint32_t rank = 0;
  std::uint32_t num_ranks = 1;
  std::uint32_t experts = 0;
  std::uint32_t topk = 0;
  std::uint32_t expert0 = 0;  // first global expert of this rank
  std::uint32_t local_experts = 0;
  std::uint32_t num_rows = 0;  // real rows at this rank
  std::uint32_t num_blocks = 0;
  std::uint32_t num_phases = 0;
  std::uint32_t num_parts = 0;
  std::uint32_t num_empty = 0;  // local experts without rows
  std::uint32_t num_records = 0;
  std::uint32_t max_phases = 0;     // over all ranks
  std::uint32_t saved_blocks = 0;   // blocks that a saving context keeps (a prefix)
  std::uint32_t saved_row_end = 0;  // padded rows in them
  std::uint32_t cell_rows = 0;      // rows of a ring cell

  const std::uint32_t* counts = nullptr;         // [R][E] slots of source s for expert e
  const std::uint32_t* source_prefix = nullptr;  // [local][R+1] rows of the expert from sources < s
  const std::uint32_t* slot_offset = nullptr;    // [R][local] place in source s's sorted slots
  const std::uint32_t* expert_row0 = nullptr;    // [local+1] padded
  const BlockRecord* blocks = nullptr;           // [num_blocks]
  const PhaseRecord* phases = nullptr;           // [num_phases+1], the last closes
  const PartRecord* parts = nullptr;             // [num_parts]
  const std::uint32_t* empty_experts = nullptr;  // [num_empty] local
  const std::uint32_t* rows_of = nullptr;        // [R] rows here that rank s owns
  const std::uint32_t* sorted_slots = nullptr;   // this rank's own slots, by expert, stable
  const std::uint32_t* own_offset = nullptr;     // [E+1] place of expert e in sorted_slots
  const std::uint32_t* own_prefix = nullptr;     // [E] rows of expert e from ranks before this one
  const std::uint32_t* global_row0 = nullptr;    // [E] first padded row of expert e at its rank
  const ExchangeRecord* records = nullptr;       // [num_records+1], by phase, then peer rotated
  const std::uint32_t* record0 = nullptr;        // [max_phases+1] first record of a phase
};

// Source rank of row `index` (0-based, real) of local expert `expert`, searching from `first`.
MOK_HD std::uint32_t source_of(const RouteView& view, std::uint32_t expert, std::uint32_t index,
                               std::uint32_t first) {
  const std::uint32_t* prefix =
      view.source_prefix + static_cast<std::uint64_t>(expert) * (view.num_ranks + 1);
  std::uint32_t source = first;
  while (prefix[source + 1] <= index) {
    ++source;
  }
  return source;
}

// Place of a padded row in a ring of `cells` cells (phase p uses cell p mod cells).
MOK_HD std::uint64_t ring_row(const RouteView& view, std::uint32_t cells, std::uint32_t phase,
                              std::uint32_t phase_row0, std::uint32_t row) {
  return static_cast<std::uint64_t>(phase % cells) * view.cell_rows + (row - phase_row0);
}

// A run of this rank's rows of one expert inside an exchange record.
struct ExchangeRun {
  std::uint32_t expert;  // global
  std::uint32_t index;   // first row's place among this rank's rows of the expert
  std::uint32_t count;
  std::uint32_t peer_row;  // first row's padded row at the peer
};

// Calls f(run) for rows [begin, end) of the record, in order.
template <class F>
MOK_HD void for_each_run(const RouteView& view, const ExchangeRecord& record, std::uint32_t begin,
                         std::uint32_t end, F f) {
  const std::uint32_t* own = view.counts + static_cast<std::uint64_t>(view.rank) * view.experts;
  std::uint32_t expert = record.first_expert;
  std::uint32_t index = record.first_index;
  std::uint32_t position = 0;
  while (position < end) {
    const std::uint32_t rest = own[expert] - index;
    const std::uint32_t from = begin > position ? begin - position : 0;
    const std::uint32_t to = end - position < rest ? end - position : rest;
    if (from < to) {
      f(ExchangeRun{expert, index + from, to - from,
                    view.global_row0[expert] + view.own_prefix[expert] + index + from});
    }
    position += rest;
    ++expert;
    index = 0;
  }
}

}  // namespace mok
