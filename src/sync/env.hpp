// env.hpp: what the protocol asks of a machine (SyncEnv), the places where it waits, the answers.
#pragma once

#include <concepts>
#include <cstdint>

#include "core/host_device.hpp"

namespace mok {

// Where a wait can stand; named in time-outs, in docs/protocol.md and in traces.
enum class Site : std::uint32_t {
  kNone,
  kJoin,       // another rank's arena is there and agrees
  kLeft,       // the other ranks have left the previous call
  kCounts,     // another rank's counts
  kStart,      // another rank has staged its inputs
  kRows,       // x or dY rows of a block
  kArrive,     // pushed rows of a phase
  kCellFree,   // a ring cell, here or at a peer, may be written again
  kHidden,     // hidden (or gate and up, or their gradients) of a block
  kOutRows,    // y or dX rows in the out ring
  kReady,      // a peer's out cell is ready to be pulled
  kRelease,    // the owners have pulled a phase
  kArriveOut,  // y or dX rows that a peer owes
  kShared,     // a block of the shared expert
  kGradients,  // hidden gradients of a phase, for the weight gradients
  kSpill,      // the spill memory of a split expert
  kPipe,       // a pipeline stage inside a CTA
  kTask,       // not a wait: a task's body
  kNumSites
};

MOK_HD constexpr const char* site_name(Site site) {
  constexpr const char* kNames[] = {"none",  "join",    "left",       "counts", "start",
                                    "rows",  "arrive",  "cell-free",  "hidden", "out-rows",
                                    "ready", "release", "arrive-out", "shared", "gradients",
                                    "spill", "pipe",    "task"};
  static_assert(sizeof(kNames) / sizeof(kNames[0]) == static_cast<unsigned>(Site::kNumSites));
  return kNames[static_cast<unsigned>(site)];
}

enum class DeadlineKind : std::uint32_t { kJoin, kProgress };

enum class WaitResult : std::uint32_t { kReady, kAborted, kTimeout, kMismatch };

// One wait as the machine sees it: who is awaited, where, for what. Reported when it fails.
struct WaitInfo {
  Site site = Site::kNone;
  DeadlineKind deadline = DeadlineKind::kProgress;
  std::uint32_t rank = 0;  // the rank that must act
  std::uint64_t expected = 0;
  std::uint64_t seen = 0;
};

// A machine's view of shared memory and time. Scopes: counters are shared by the workers of one rank
// (GPU: .gpu), flags by all ranks (GPU: .sys).
template <class Env>
concept SyncEnv = requires(Env env, const Env constant, const std::uint32_t* counter,
                           std::uint32_t* counter_rw, const std::uint64_t* flag,
                           std::uint64_t* flag_rw, typename Env::Watch watch, WaitInfo info) {
  { env.load_acquire(counter) } -> std::same_as<std::uint32_t>;
  { env.load_acquire(flag) } -> std::same_as<std::uint64_t>;
  { env.store_release(flag_rw, std::uint64_t{}) } -> std::same_as<void>;
  // Adds with acquire and release; returns the value before.
  { env.add_acq_rel(counter_rw, std::uint32_t{}) } -> std::same_as<std::uint32_t>;
  { env.pause() } -> std::same_as<void>;
  { env.aborted() } -> std::same_as<bool>;
  { env.watch(info) } -> std::same_as<typename Env::Watch>;
  { env.expired(watch, info) } -> std::same_as<bool>;
  { env.report(WaitResult::kTimeout, info) } -> std::same_as<void>;
};

}  // namespace mok
