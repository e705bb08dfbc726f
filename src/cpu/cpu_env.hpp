// cpu_env.hpp: SyncEnv of the CPU machine: atomics on the shared words, a steady clock, and a deadline
// that counts from the awaited rank's last sign of life.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include "comm/group.hpp"
#include "sync/env.hpp"
#include "sync/word_layout.hpp"

namespace mok::cpu {

using Clock = std::chrono::steady_clock;

inline constexpr std::uint64_t kHostWordStride = 8;  // u64 words: a line each

// Host words of one rank: life, abort, then one state word per worker.
struct HostWords {
  std::uint64_t* base = nullptr;

  [[nodiscard]] std::atomic_ref<std::uint64_t> word(HostWord which) const {
    return std::atomic_ref(base[static_cast<std::uint32_t>(which) * kHostWordStride]);
  }
  // Site in the high half, awaited rank in the low; Site::kTask while a body runs.
  [[nodiscard]] std::atomic_ref<std::uint64_t> state(std::uint32_t worker) const {
    return std::atomic_ref(base[(kNumHostWords + worker) * kHostWordStride]);
  }
};

// What the workers of one rank share.
struct RankSync {
  comm::ArenaSet* set = nullptr;
  std::uint32_t rank = 0;
  std::uint32_t num_ranks = 1;
  std::uint32_t workers = 1;
  std::uint64_t host_words_offset = 0;
  std::chrono::nanoseconds join_deadline{};
  std::chrono::nanoseconds progress_deadline{};
  std::uint64_t epoch = 0;

  [[nodiscard]] HostWords host(std::uint32_t of) const {
    return HostWords{
        reinterpret_cast<std::uint64_t*>(set->base(static_cast<int>(of)) + host_words_offset)};
  }
};

class CpuEnv {
 public:
  struct Watch {
    Clock::time_point since;
    std::uint64_t lives = 0;  // of the ranks that are awaited, directly or through others
    std::uint32_t rank = 0;
  };

  CpuEnv(const RankSync& sync, std::uint32_t worker)
      : sync_(sync), own_(sync.host(sync.rank)), worker_(worker) {}

  std::uint32_t load_acquire(const std::uint32_t* word) const {
    return std::atomic_ref(*const_cast<std::uint32_t*>(word)).load(std::memory_order_acquire);
  }
  std::uint64_t load_acquire(const std::uint64_t* word) const {
    return std::atomic_ref(*const_cast<std::uint64_t*>(word)).load(std::memory_order_acquire);
  }
  void store_release(std::uint64_t* word, std::uint64_t value) const {
    std::atomic_ref(*word).store(value, std::memory_order_release);
  }
  std::uint32_t add_acq_rel(std::uint32_t* word, std::uint32_t amount) const {
    return std::atomic_ref(*word).fetch_add(amount, std::memory_order_acq_rel);
  }
  // Spin, then yield, then sleep: ranks may have fewer cores than threads.
  void pause() {
    ++pauses_;
    if (pauses_ > kYields) {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    } else if (pauses_ > kSpins) {
      std::this_thread::yield();
    }
  }
  [[nodiscard]] bool aborted() const {
    return own_.word(HostWord::kAbort).load(std::memory_order_acquire) != 0 || sync_.set->failed();
  }

  Watch watch(const WaitInfo& info) {
    pauses_ = 0;
    set_state(info.site, info.rank);
    return Watch{Clock::now(), follow(info).lives, info.rank};
  }
  // The awaited rank may be silent because it waits itself, for several ranks at once: then any of the
  // ranks at the ends of those chains may give the sign of life, and has the join deadline where a chain
  // waits for it to enter the call. So neither a slow nor a late rank makes others time out early,
  // however indirectly they wait.
  bool expired(Watch& watch, const WaitInfo& info) {
    const Clock::time_point now = Clock::now();
    const Blame blame = follow(info);
    if (info.rank != watch.rank || blame.lives != watch.lives) {
      watch = Watch{now, blame.lives, info.rank};
      set_state(info.site, info.rank);
      return false;
    }
    return now - watch.since >
           (blame.deadline == DeadlineKind::kJoin ? sync_.join_deadline : sync_.progress_deadline);
  }
  // Records the first failure of the group and stops every rank.
  void report(WaitResult result, const WaitInfo& info);

  void set_state(Site site, std::uint32_t rank) const {
    own_.state(worker_).store((static_cast<std::uint64_t>(site) << 32) | rank,
                              std::memory_order_relaxed);
  }

 private:
  static constexpr std::uint32_t kSpins = 64;
  static constexpr std::uint32_t kYields = 512;

  [[nodiscard]] std::uint64_t life(std::uint32_t rank) const {
    return sync_.host(rank).word(HostWord::kLife).load(std::memory_order_relaxed);
  }
  // Whom the wait depends on: the rank to look at, the deadline, the signs of life of all of them.
  struct Blame {
    std::uint32_t rank;
    DeadlineKind deadline;
    std::uint64_t lives;
  };
  [[nodiscard]] Blame follow(const WaitInfo& info);

  const RankSync& sync_;
  HostWords own_;
  std::uint32_t worker_;
  std::uint32_t pauses_ = 0;
  std::vector<std::uint32_t> reached_;  // scratch of follow()
};
static_assert(SyncEnv<CpuEnv>);

}  // namespace mok::cpu
