// wait_test.cpp: the one global wait: ready, aborted, timed out, mismatched; and what it reports.
#include "sync/wait.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "sync/env.hpp"

namespace mok {
namespace {

// A machine under a script: on_pause plays the rest of the world, the clock runs out after some
// looks.
struct ScriptedEnv {
  struct Watch {
    Site site = Site::kNone;
    int looks = 0;
  };

  std::function<void(int)> on_pause = [](int) {};
  int looks_until_expired = 1'000'000;
  int looks_until_aborted = 1'000'000;
  int num_pauses = 0;
  int num_watches = 0;
  int num_looks = 0;
  std::vector<std::pair<WaitResult, WaitInfo>> reports;

  std::uint32_t load_acquire(const std::uint32_t* counter) { return *counter; }
  std::uint64_t load_acquire(const std::uint64_t* flag) { return *flag; }
  void store_release(std::uint64_t* flag, std::uint64_t value) { *flag = value; }
  std::uint32_t add_acq_rel(std::uint32_t* counter, std::uint32_t amount) {
    const std::uint32_t before = *counter;
    *counter += amount;
    return before;
  }
  void pause() { on_pause(++num_pauses); }
  bool aborted() { return ++num_looks > looks_until_aborted; }
  Watch watch(const WaitInfo& info) {
    ++num_watches;
    return {info.site, 0};
  }
  bool expired(Watch& watch, const WaitInfo& info) {
    EXPECT_EQ(watch.site, info.site);
    return ++watch.looks > looks_until_expired;
  }
  void report(WaitResult result, const WaitInfo& info) { reports.push_back({result, info}); }
};
static_assert(SyncEnv<ScriptedEnv>);

constexpr WaitInfo kInfo{Site::kRows, DeadlineKind::kProgress, 3, 0, 0};

TEST(WaitCounter, ReadyAtOnceTouchesNeitherClockNorAbort) {
  ScriptedEnv env;
  env.looks_until_aborted = 0;
  const std::uint32_t counter = counter_value(5, 8);
  EXPECT_EQ(wait_counter(env, &counter, counter_value(5, 8), kInfo), WaitResult::kReady);
  EXPECT_EQ(env.num_pauses, 0);
  EXPECT_EQ(env.num_watches, 0);
  EXPECT_EQ(env.num_looks, 0);
}

TEST(WaitCounter, ReadyWhenTheCountComesAfterManyChecks) {
  ScriptedEnv env;
  std::uint32_t counter = counter_value(5, 0);
  env.on_pause = [&](int pause) { counter += pause % 100 == 0 ? 1U : 0U; };
  EXPECT_EQ(wait_counter(env, &counter, counter_value(5, 8), kInfo), WaitResult::kReady);
  EXPECT_EQ(env.num_pauses, 800);
  EXPECT_EQ(env.num_looks, 800 / kPollsPerCheck);
  EXPECT_TRUE(env.reports.empty());
}

TEST(WaitCounter, TimeoutNamesSiteRankExpectedAndSeen) {
  ScriptedEnv env;
  env.looks_until_expired = 4;
  std::uint32_t counter = counter_value(0xffffffffU, 2);
  env.on_pause = [&](int pause) { counter += pause == 40 ? 1U : 0U; };
  EXPECT_EQ(wait_counter(env, &counter, counter_value(0xffffffffU, 8), kInfo),
            WaitResult::kTimeout);
  EXPECT_EQ(env.num_pauses, 5 * kPollsPerCheck);
  ASSERT_EQ(env.reports.size(), 1U);
  const auto& [result, info] = env.reports[0];
  EXPECT_EQ(result, WaitResult::kTimeout);
  EXPECT_EQ(info.site, Site::kRows);
  EXPECT_EQ(info.rank, 3U);
  EXPECT_EQ(info.expected, 8U);
  EXPECT_EQ(info.seen, 3U);
}

TEST(WaitCounter, AbortComesBeforeTheClockAndIsNotReported) {
  ScriptedEnv env;
  env.looks_until_aborted = 2;
  env.looks_until_expired = 2;
  const std::uint32_t counter = counter_value(1, 0);
  EXPECT_EQ(wait_counter(env, &counter, counter_value(1, 1), kInfo), WaitResult::kAborted);
  EXPECT_EQ(env.num_looks, 3);
  EXPECT_TRUE(env.reports.empty()) << "the first reporter has reported";
}

TEST(WaitCounter, StaleCountOfThePreviousCallIsNotReady) {
  for (const Epoch epoch : {0U, 1U, 15U, 16U, 0xffffffffU}) {
    ScriptedEnv env;
    env.looks_until_expired = 0;
    const std::uint32_t counter = counter_value(epoch - 1, kCountMask);
    EXPECT_EQ(wait_counter(env, &counter, counter_value(epoch, 1), kInfo), WaitResult::kTimeout)
        << epoch;
  }
}

// Flags of 4 ranks, 3 words apart.
struct FlagRun {
  static constexpr std::uint32_t kStride = 3;
  std::vector<std::uint64_t> words = std::vector<std::uint64_t>(12, flag_value(6, 0));

  std::uint64_t& of(std::uint32_t rank) { return words[std::size_t{rank} * kStride]; }
  WaitResult wait(ScriptedEnv& env, std::uint32_t first, std::uint32_t last, std::uint64_t target,
                  FlagMatch match = FlagMatch::kAtLeast) {
    return wait_flags(env, words.data(), kStride, first, last, target, match, kInfo);
  }
};

TEST(WaitFlags, ReadyNeedsEveryRankOfTheRunAndNoOther) {
  FlagRun flags;
  ScriptedEnv env;
  env.looks_until_expired = 0;
  flags.of(1) = flag_value(7, 2);
  flags.of(2) = flag_value(7, 9);
  EXPECT_EQ(flags.wait(env, 1, 2, flag_value(7, 2)), WaitResult::kReady);
  EXPECT_TRUE(env.reports.empty());
  EXPECT_EQ(flags.wait(env, 2, 2, flag_value(7, 9)), WaitResult::kReady);
  EXPECT_EQ(flags.wait(env, 1, 3, flag_value(7, 2)), WaitResult::kTimeout);
}

TEST(WaitFlags, TimeoutNamesTheRankThatIsMissing) {
  for (std::uint32_t missing = 0; missing < 4; ++missing) {
    FlagRun flags;
    ScriptedEnv env;
    env.looks_until_expired = 1;
    for (std::uint32_t rank = 0; rank < 4; ++rank) {
      flags.of(rank) = rank == missing ? flag_value(7, 1) : flag_value(7, 2);
    }
    EXPECT_EQ(flags.wait(env, 0, 3, flag_value(7, 2)), WaitResult::kTimeout);
    ASSERT_EQ(env.reports.size(), 1U);
    const auto& [result, info] = env.reports[0];
    EXPECT_EQ(result, WaitResult::kTimeout);
    EXPECT_EQ(info.rank, missing);
    EXPECT_EQ(info.site, Site::kRows);
    EXPECT_EQ(info.expected, flag_value(7, 2));
    EXPECT_EQ(info.seen, flag_value(7, 1));
  }
}

TEST(WaitFlags, EachRankGetsItsOwnDeadline) {
  FlagRun flags;
  ScriptedEnv env;
  env.looks_until_expired = 3;
  env.on_pause = [&](int pause) {
    if (pause % (2 * kPollsPerCheck) == 0) {
      flags.of(static_cast<std::uint32_t>(pause / (2 * kPollsPerCheck)) - 1) = flag_value(7, 2);
    }
  };
  EXPECT_EQ(flags.wait(env, 0, 3, flag_value(7, 2)), WaitResult::kReady);
  EXPECT_EQ(env.num_watches, 4);
}

TEST(WaitFlags, AbortEndsTheRun) {
  FlagRun flags;
  ScriptedEnv env;
  env.looks_until_aborted = 0;
  EXPECT_EQ(flags.wait(env, 0, 3, flag_value(7, 2)), WaitResult::kAborted);
  EXPECT_TRUE(env.reports.empty());
}

TEST(WaitFlags, ExactAcceptsOnlyTheTarget) {
  for (const Epoch epoch : {0U, 1U, 0x80000000U, 0xffffffffU}) {
    const std::uint64_t target = flag_value(epoch, start_payload(1, 5));
    for (const std::uint64_t other :
         {flag_value(epoch, start_payload(2, 5)), flag_value(epoch, start_payload(1, 4)),
          flag_value(epoch, start_payload(1, 6)), flag_value(epoch, 0),
          flag_value(epoch + 1, start_payload(1, 5))}) {
      FlagRun flags;
      ScriptedEnv env;
      env.looks_until_expired = 0;
      flags.of(0) = target;
      flags.of(1) = other;
      EXPECT_EQ(flags.wait(env, 0, 0, target, FlagMatch::kExact), WaitResult::kReady);
      EXPECT_EQ(flags.wait(env, 0, 1, target, FlagMatch::kExact), WaitResult::kMismatch);
      ASSERT_EQ(env.reports.size(), 1U);
      EXPECT_EQ(env.reports[0].first, WaitResult::kMismatch);
      EXPECT_EQ(env.reports[0].second.rank, 1U);
      EXPECT_EQ(env.reports[0].second.expected, target);
      EXPECT_EQ(env.reports[0].second.seen, other);
    }
  }
}

TEST(WaitFlags, ExactWaitsForAnOlderCall) {
  for (const Epoch epoch : {0U, 1U, 0x80000000U, 0xffffffffU}) {
    const std::uint64_t target = flag_value(epoch, start_payload(1, 5));
    FlagRun flags;
    flags.of(0) = flag_value(epoch - 1, 0xffffffffU);
    ScriptedEnv env;
    env.on_pause = [&](int pause) { flags.of(0) = pause == 50 ? target : flags.of(0); };
    EXPECT_EQ(flags.wait(env, 0, 0, target, FlagMatch::kExact), WaitResult::kReady);
    EXPECT_EQ(env.num_pauses, 50);
  }
}

TEST(WaitUntil, TheConditionMayNameWhomItMisses) {
  ScriptedEnv env;
  env.looks_until_expired = 0;
  const WaitResult result = wait_until(env, kInfo, [](WaitInfo& info) {
    info.rank = 9;
    info.seen = 77;
    return false;
  });
  EXPECT_EQ(result, WaitResult::kTimeout);
  ASSERT_EQ(env.reports.size(), 1U);
  EXPECT_EQ(env.reports[0].second.rank, 9U);
  EXPECT_EQ(env.reports[0].second.seen, 77U);
}

TEST(Site, EverySiteHasAName) {
  for (std::uint32_t i = 0; i < static_cast<std::uint32_t>(Site::kNumSites); ++i) {
    EXPECT_NE(site_name(static_cast<Site>(i))[0], '\0');
  }
}

}  // namespace
}  // namespace mok
