// blame_test.cpp: whom a wait depends on: the chain of state words, its signs of life, whom it names.
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <thread>

#include "cpu/cpu_env.hpp"

namespace mok::cpu {
namespace {

constexpr std::uint32_t kRanks = 4;
constexpr std::uint32_t kWorkers = 3;

class Blame : public ::testing::Test {
 protected:
  Blame() : set_(kRanks, 0) {
    const std::uint64_t bytes = (kNumHostWords + kWorkers) * kHostWordStride * 8;
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      comm::Memory arena(bytes);
      std::memset(arena.data(), 0, bytes);
      set_.publish(static_cast<int>(rank), std::move(arena), "");
      sync_[rank].set = &set_;
      sync_[rank].rank = rank;
      sync_[rank].num_ranks = kRanks;
      sync_[rank].workers = kWorkers;
      sync_[rank].join_deadline = std::chrono::hours(1);
      sync_[rank].progress_deadline = std::chrono::milliseconds(1);
    }
  }
  void state(std::uint32_t rank, std::uint32_t worker, Site site, std::uint32_t awaited) {
    CpuEnv(sync_[rank], worker).set_state(site, awaited);
  }
  void show_life(std::uint32_t rank) { sync_[rank].host(rank).word(HostWord::kLife).fetch_add(1); }
  // Is the wait over its deadline after two looks, `between` happening in the time between them?
  template <class F>
  bool expires(std::uint32_t waiter, std::uint32_t awaited, F between) {
    CpuEnv env(sync_[waiter], 0);
    WaitInfo info;
    info.site = Site::kArrive;
    info.rank = awaited;
    CpuEnv::Watch watch = env.watch(info);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    between();
    return env.expired(watch, info);
  }
  int named(std::uint32_t waiter, std::uint32_t awaited) {
    CpuEnv env(sync_[waiter], 0);
    WaitInfo info;
    info.site = Site::kArrive;
    info.rank = awaited;
    env.report(WaitResult::kTimeout, info);
    return set_.failure().wait().rank;
  }

  comm::ArenaSet set_;
  RankSync sync_[kRanks];
};

TEST_F(Blame, SilentRankExpiresAndIsNamed) {
  state(2, 0, Site::kTask, 2);
  EXPECT_TRUE(expires(0, 2, [] {}));
  EXPECT_EQ(named(0, 2), 2);
}

TEST_F(Blame, LifeAtTheEndOfTheChainCounts) {
  state(1, 0, Site::kArrive, 2);
  state(2, 0, Site::kTask, 2);
  EXPECT_FALSE(expires(0, 1, [&] { show_life(2); }));
  EXPECT_TRUE(expires(0, 1, [] {}));
  EXPECT_EQ(named(0, 1), 2);
}

// Two healthy waiters that also wait for each other: the walk must still find rank 2.
TEST_F(Blame, BranchingWaitsReachTheRankInsideATask) {
  state(0, 1, Site::kArrive, 2);
  state(0, 2, Site::kArrive, 1);
  state(1, 0, Site::kArrive, 2);
  state(1, 1, Site::kCellFree, 0);
  state(2, 0, Site::kTask, 2);
  EXPECT_FALSE(expires(0, 1, [&] { show_life(2); }));
  EXPECT_TRUE(expires(0, 1, [] {}));
  EXPECT_EQ(named(0, 1), 2);
}

// A rank inside a task must end that task: what its other workers wait for does not excuse it.
TEST_F(Blame, RankInsideATaskEndsTheChain) {
  state(2, 0, Site::kTask, 2);
  state(2, 1, Site::kArrive, 3);
  state(3, 0, Site::kTask, 3);
  EXPECT_TRUE(expires(0, 2, [&] { show_life(3); }));
  EXPECT_EQ(named(0, 2), 2);
}

TEST_F(Blame, ChainToARankThatHasNotEnteredHasTheJoinDeadline) {
  state(1, 0, Site::kStart, 3);
  EXPECT_FALSE(expires(0, 1, [] {}));
}

TEST_F(Blame, FailureOfTheGroupIsAnAbort) {
  CpuEnv env(sync_[1], 0);
  EXPECT_FALSE(env.aborted());
  set_.fail(Status::environment("test", "", ""));
  EXPECT_TRUE(env.aborted());
}

}  // namespace
}  // namespace mok::cpu
