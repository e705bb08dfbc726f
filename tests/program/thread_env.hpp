// thread_env.hpp: SyncEnv for tests whose roles are threads: atomics, one abort word, one report.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <thread>

#include "program/roles.hpp"

namespace mok::loopback {

struct Report {
  WaitResult result = WaitResult::kReady;
  WaitInfo info;
  std::uint32_t reporter = 0;
};

// Of all ranks together.
struct SharedAbort {
  std::atomic<std::uint32_t> word{0};
  std::atomic<std::uint32_t> reports{0};
  Report first;  // written by whoever made `reports` 1, read after the threads are joined
  std::chrono::milliseconds deadline{60'000};
};

inline std::chrono::milliseconds scaled(std::chrono::milliseconds deadline) {
  const char* text = std::getenv("MOK_DEADLINE_SCALE");
  const long factor = text == nullptr ? 1 : std::strtol(text, nullptr, 10);
  return deadline * (factor < 1 ? 1 : factor);
}

class ThreadEnv {
 public:
  using Watch = std::chrono::steady_clock::time_point;

  ThreadEnv(SharedAbort& shared, std::uint32_t rank) : shared_(&shared), rank_(rank) {}

  [[nodiscard]] std::uint32_t load_acquire(const std::uint32_t* word) const {
    return std::atomic_ref(*const_cast<std::uint32_t*>(word)).load(std::memory_order_acquire);
  }
  [[nodiscard]] std::uint64_t load_acquire(const std::uint64_t* word) const {
    return std::atomic_ref(*const_cast<std::uint64_t*>(word)).load(std::memory_order_acquire);
  }
  void store_release(std::uint64_t* word, std::uint64_t value) const {
    std::atomic_ref(*word).store(value, std::memory_order_release);
  }
  std::uint32_t add_acq_rel(std::uint32_t* word, std::uint32_t amount) const {
    return std::atomic_ref(*word).fetch_add(amount, std::memory_order_acq_rel);
  }
  std::uint32_t claim(std::uint32_t* cursor) const {
    return std::atomic_ref(*cursor).fetch_add(1, std::memory_order_relaxed);
  }
  void pause() const { std::this_thread::yield(); }
  [[nodiscard]] bool aborted() const { return shared_->word.load(std::memory_order_relaxed) != 0; }
  // A wait for this rank itself waits for what another of its roles waits for: it gets twice the
  // time, so that the one who knows the missing rank speaks first.
  [[nodiscard]] Watch watch(const WaitInfo& info) const {
    return std::chrono::steady_clock::now() + shared_->deadline * (info.rank == rank_ ? 2 : 1);
  }
  [[nodiscard]] bool expired(const Watch& end, const WaitInfo&) const {
    return std::chrono::steady_clock::now() > end;
  }
  void report(WaitResult result, const WaitInfo& info) const {
    if (shared_->reports.fetch_add(1, std::memory_order_relaxed) == 0) {
      shared_->first = Report{result, info, rank_};
    }
    shared_->word.store(1, std::memory_order_release);
  }

 private:
  SharedAbort* shared_;
  std::uint32_t rank_;
};
static_assert(RoleEnv<ThreadEnv>);

}  // namespace mok::loopback
