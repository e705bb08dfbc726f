// word_layout.hpp: names and places of the shared words. docs/protocol.md tells who writes which, when.
#pragma once

#include <cstdint>

#include "core/host_device.hpp"

namespace mok {

// Flags in a rank's arena, written by other ranks (and by the rank for itself). Celled flags have one
// word per (rank, ring cell); their payload is phase + 1.
enum class Flag : std::uint32_t {
  kCounts,     // [rank] that rank's row of counts is here
  kStart,      // [rank] that rank has staged its inputs; payload: call kind and context
  kLeft,       // [rank] that rank has left the call
  kArriveOut,  // [rank] all y (or dX) rows that rank owes this one have landed
  kArriveX,    // [rank][cell] that rank has pushed its x rows of the phase
  kArriveDy,   // [rank][cell] the same for dY rows
  kFree,       // [rank][cell] that rank's x (dY) cell may be written: phase - cells is done
  kReady,      // [rank][cell] that rank's y (dX) cell holds the phase, ready to be pulled
  kRelease,    // [rank][cell] that rank has pulled its rows of the phase out of this rank's cell
  kNumFlags
};
inline constexpr std::uint32_t kNumFlags = static_cast<std::uint32_t>(Flag::kNumFlags);

// Host-side words of a rank, also in its arena.
enum class HostWord : std::uint32_t {
  kLife,   // bumped by the rank at each task it ends: its sign of life
  kAbort,  // not 0: stop; written by the first reporter
  kNumHostWords
};
inline constexpr std::uint32_t kNumHostWords = static_cast<std::uint32_t>(HostWord::kNumHostWords);

struct FlagLayout {
  std::uint32_t num_ranks = 1;
  std::uint32_t cells = 1;

  [[nodiscard]] MOK_HD_MEMBER std::uint32_t index(Flag flag, std::uint32_t rank,
                                                  std::uint32_t cell) const {
    const auto kind = static_cast<std::uint32_t>(flag);
    const auto celled = static_cast<std::uint32_t>(Flag::kArriveX);
    if (kind < celled) {
      return kind * num_ranks + rank;
    }
    return celled * num_ranks + ((kind - celled) * num_ranks + rank) * cells + cell;
  }
  [[nodiscard]] MOK_HD_MEMBER std::uint32_t size() const {
    const auto celled = static_cast<std::uint32_t>(Flag::kArriveX);
    return celled * num_ranks + (kNumFlags - celled) * num_ranks * cells;
  }
};

// Counters in the rank's own memory. What a count counts stands behind the name.
enum class Counter : std::uint32_t {
  // one per block
  kXReady,           // rows of x in place (pad rows too)
  kDyReady,          // rows of dY in place
  kGateUpReady,      // gate-up tiles: hidden (or recomputed gate and up) in place
  kHiddenGradReady,  // hidden-gradient tiles: d_gate, d_up, w*h in place
  kOutReady,         // down (or input-gradient) tiles: y (or dX) rows in the out ring
  // one per phase
  kGateUpDone,      // gate-up tiles
  kOutDone,         // down (or input-gradient) tiles
  kHiddenGradDone,  // hidden-gradient tiles
  kRetired,         // input-gradient and weight-gradient tiles
  kCombined,        // rows that the comm role has pushed out of the out ring
  // one per exchange record
  kPushedX,   // stripes
  kPushedDy,  // stripes
  kPulled,    // stripes
  // one per rank
  kPieces,  // rows (times down tiles, when scattered) sent to that owner
  // one per block of the shared expert
  kSharedLogit,       // 1: the output gate's s is there
  kSharedGateUp,      // tiles
  kSharedHiddenGrad,  // tiles
  kSharedOut,         // down (or input-gradient) tiles
  // one
  kSharedGradDone,  // all shared hidden-gradient tiles
  kSharedOutDone,   // all shared input-gradient tiles
  kPulledAll,       // all stripes of the pulled combine
  kExit,            // workers that have left
  kNumCounters
};
inline constexpr std::uint32_t kNumCounters = static_cast<std::uint32_t>(Counter::kNumCounters);

struct CounterLayout {
  std::uint32_t base[kNumCounters + 1] = {};

  [[nodiscard]] MOK_HD_MEMBER std::uint32_t index(Counter counter, std::uint32_t i) const {
    return base[static_cast<std::uint32_t>(counter)] + i;
  }
  [[nodiscard]] MOK_HD_MEMBER std::uint32_t size() const { return base[kNumCounters]; }
};

inline CounterLayout make_counter_layout(std::uint64_t max_blocks, std::uint64_t max_records,
                                         std::uint64_t num_ranks, std::uint64_t shared_blocks) {
  const auto count = [&](Counter counter) -> std::uint64_t {
    if (counter <= Counter::kCombined) {
      return max_blocks;  // phases are at most as many as blocks
    }
    if (counter <= Counter::kPulled) {
      return max_records;
    }
    if (counter == Counter::kPieces) {
      return num_ranks;
    }
    return counter <= Counter::kSharedOut ? shared_blocks : 1;
  };
  CounterLayout layout;
  std::uint64_t at = 0;
  for (std::uint32_t i = 0; i < kNumCounters; ++i) {
    layout.base[i] = static_cast<std::uint32_t>(at);
    at += count(static_cast<Counter>(i));
  }
  layout.base[kNumCounters] = static_cast<std::uint32_t>(at);
  return layout;
}

}  // namespace mok
