// step_env.hpp: a SyncEnv for one thread: a wait that is not satisfied ends at once. Stores of
// flags can be held back, as a slow worker would, and every store must make its word grow.
#pragma once

#include <cstdint>
#include <deque>

#include "sync/env.hpp"
#include "sync/words.hpp"

namespace mok::testing {

struct StepEnv {
  struct Watch {};
  struct Store {
    std::uint64_t* flag;
    std::uint64_t value;
  };

  bool hold_stores = false;
  std::deque<Store> held;
  std::uint32_t num_shrinking = 0;  // stores that did not make their word grow
  WaitResult reported = WaitResult::kReady;
  WaitInfo info;

  std::uint32_t load_acquire(const std::uint32_t* counter) { return *counter; }
  std::uint64_t load_acquire(const std::uint64_t* flag) { return *flag; }
  void store_release(std::uint64_t* flag, std::uint64_t value) {
    held.push_back({flag, value});
    while (!hold_stores && !held.empty()) {
      store_one();
    }
  }
  std::uint32_t add_acq_rel(std::uint32_t* counter, std::uint32_t amount) {
    const std::uint32_t before = *counter;
    *counter += amount;
    return before;
  }
  void pause() {}
  bool aborted() { return false; }
  Watch watch(const WaitInfo&) { return {}; }
  bool expired(Watch&, const WaitInfo&) { return true; }
  void report(WaitResult result, const WaitInfo& failed) {
    reported = result;
    info = failed;
  }

  void store_one() {
    const Store store = held.front();
    held.pop_front();
    num_shrinking += static_cast<std::int64_t>(store.value - *store.flag) > 0 ? 0U : 1U;
    *store.flag = store.value;
  }
};
static_assert(SyncEnv<StepEnv>);

}  // namespace mok::testing
