// wait.hpp: the one global wait. Ready, aborted, timed out or mismatched: it always ends.
#pragma once

#include "sync/env.hpp"
#include "sync/words.hpp"

namespace mok {

inline constexpr int kPollsPerCheck = 32;  // polls between two looks at abort and clock

// `ready(info)` looks once; it may update info.rank and info.seen (whom it found missing).
template <SyncEnv Env, class Ready>
[[nodiscard]] MOK_HD WaitResult wait_until(Env& env, WaitInfo info, Ready ready) {
  if (ready(info)) {
    return WaitResult::kReady;
  }
  auto watch = env.watch(info);
  for (;;) {
    for (int i = 0; i < kPollsPerCheck; ++i) {
      if (ready(info)) {
        return WaitResult::kReady;
      }
      env.pause();
    }
    if (env.aborted()) {
      return WaitResult::kAborted;
    }
    if (env.expired(watch, info)) {
      env.report(WaitResult::kTimeout, info);
      return WaitResult::kTimeout;
    }
  }
}

// Counter of this rank. Pairs with: the add_acq_rel of publish().
template <SyncEnv Env>
[[nodiscard]] MOK_HD WaitResult wait_counter(Env& env, const std::uint32_t* counter,
                                             std::uint32_t target, WaitInfo info) {
  info.expected = counter_count(target);
  return wait_until(env, info, [&](WaitInfo& found) {
    const std::uint32_t value = env.load_acquire(counter);
    found.seen = counter_count(value);
    return counter_reached(value, target);
  });
}

// With kExact, a flag that has reached the target's call but differs from it is a mismatch: the ranks
// paired different calls.
enum class FlagMatch : std::uint32_t { kAtLeast, kExact };

// Flags flags[first*stride .. last*stride], one per rank. Pairs with: the store_release of publish_task()
// and publish_to_all().
template <SyncEnv Env>
[[nodiscard]] MOK_HD WaitResult wait_flags(Env& env, const std::uint64_t* flags,
                                           std::uint32_t stride, std::uint32_t first,
                                           std::uint32_t last, std::uint64_t target,
                                           FlagMatch match, WaitInfo info) {
  info.expected = target;
  const std::uint64_t enough =
      match == FlagMatch::kExact ? flag_value(flag_epoch(target), 0) : target;
  for (std::uint32_t rank = first; rank <= last; ++rank) {
    info.rank = rank;
    std::uint64_t value = 0;
    const WaitResult result = wait_until(env, info, [&](WaitInfo& found) {
      value = env.load_acquire(flags + static_cast<std::uint64_t>(rank) * stride);
      found.seen = value;
      return flag_reached(value, enough);
    });
    if (result != WaitResult::kReady) {
      return result;
    }
    if (match == FlagMatch::kExact && value != target) {
      info.seen = value;
      env.report(WaitResult::kMismatch, info);
      return WaitResult::kMismatch;
    }
  }
  return WaitResult::kReady;
}

}  // namespace mok
