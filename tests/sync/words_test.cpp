// words_test.cpp: comparisons of counters and flags, across wrap-around of tag and call number.
#include "sync/words.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <set>

#include "support/random.hpp"
#include "sync/word_layout.hpp"

namespace mok {
namespace {

constexpr Epoch kEpochs[] = {0,  1,   7,           8,           15,          16,
                             17, 255, 0x7fffffffU, 0x80000000U, 0xfffffff0U, 0xffffffffU};

TEST(Counter, HoldsTagAndCount) {
  for (const Epoch epoch : kEpochs) {
    for (const std::uint32_t count : {0U, 1U, 12345U, kCountMask - 1, kCountMask}) {
      EXPECT_EQ(counter_count(counter_value(epoch, count)), count);
      EXPECT_EQ(counter_value(epoch, count) >> kCountBits, epoch % 16);
      EXPECT_EQ(counter_value(epoch, 0) + count, counter_value(epoch, count))
          << "adds keep the tag";
    }
  }
}

TEST(Counter, ReachedWithinACall) {
  for (const Epoch epoch : kEpochs) {
    for (const std::uint32_t target : {0U, 1U, 2U, 1000U, kCountMask / 2, kCountMask}) {
      const std::uint32_t want = counter_value(epoch, target);
      EXPECT_TRUE(counter_reached(counter_value(epoch, target), want));
      EXPECT_TRUE(counter_reached(counter_value(epoch, kCountMask), want));
      if (target > 0) {
        EXPECT_FALSE(counter_reached(counter_value(epoch, target - 1), want))
            << epoch << " " << target;
        EXPECT_FALSE(counter_reached(counter_value(epoch, 0), want));
      }
    }
  }
}

// The last 7 calls, with any count, never satisfy a wait of this one; the next 7 always do.
TEST(Counter, StaleCountsOfEarlierCallsReachNothing) {
  testing::Random random(testing::test_seed());
  for (const Epoch epoch : kEpochs) {
    for (std::uint32_t age = 1; age <= 7; ++age) {
      for (int i = 0; i < 200; ++i) {
        const std::uint32_t count = random.one_in(8) ? kCountMask : random.below(kCountMask);
        const std::uint32_t target = random.one_in(8) ? 0 : random.below(kCountMask);
        EXPECT_FALSE(
            counter_reached(counter_value(epoch - age, count), counter_value(epoch, target)));
        EXPECT_TRUE(
            counter_reached(counter_value(epoch + age, count), counter_value(epoch, target)));
      }
    }
  }
}

TEST(Flag, HoldsEpochAndPayload) {
  for (const Epoch epoch : kEpochs) {
    for (const std::uint32_t payload : {0U, 1U, 0x7fffffffU, 0x80000000U, 0xffffffffU}) {
      EXPECT_EQ(flag_epoch(flag_value(epoch, payload)), epoch);
      EXPECT_EQ(flag_payload(flag_value(epoch, payload)), payload);
    }
  }
}

TEST(Flag, OrderIsByCallThenPayloadAcrossTheWrap) {
  testing::Random random(testing::test_seed());
  for (const Epoch epoch : kEpochs) {
    for (int i = 0; i < 500; ++i) {
      const auto payload = static_cast<std::uint32_t>(random.bits());
      const auto other = static_cast<std::uint32_t>(random.bits());
      const std::uint64_t target = flag_value(epoch, payload);
      EXPECT_EQ(flag_reached(flag_value(epoch, other), target), other >= payload);
      const std::uint32_t age = random.between(1, 0x7ffffffe);
      EXPECT_FALSE(flag_reached(flag_value(epoch - age, other), target)) << epoch << " " << age;
      EXPECT_TRUE(flag_reached(flag_value(epoch + age, other), target)) << epoch << " " << age;
    }
  }
}

TEST(Flag, StartPayloadTellsCallsAndContextsApart) {
  std::set<std::uint32_t> seen;
  for (std::uint32_t kind = 0; kind < 16; ++kind) {
    for (const std::uint32_t sequence : {0U, 1U, 2U, 0x0ffffffeU, 0x0fffffffU}) {
      EXPECT_TRUE(seen.insert(start_payload(kind, sequence)).second);
      EXPECT_EQ(start_payload(kind, sequence + 0x10000000U), start_payload(kind, sequence));
    }
  }
}

TEST(FlagLayout, EveryWordHasItsOwnPlace) {
  for (const std::uint32_t ranks : {1U, 2U, 5U, 72U}) {
    for (const std::uint32_t cells : {2U, 3U}) {
      const FlagLayout layout{ranks, cells};
      std::set<std::uint32_t> places;
      for (std::uint32_t flag = 0; flag < kNumFlags; ++flag) {
        const bool celled = flag >= static_cast<std::uint32_t>(Flag::kArriveX);
        for (std::uint32_t rank = 0; rank < ranks; ++rank) {
          for (std::uint32_t cell = 0; cell < (celled ? cells : 1); ++cell) {
            const std::uint32_t place = layout.index(static_cast<Flag>(flag), rank, cell);
            EXPECT_TRUE(places.insert(place).second);
            EXPECT_LT(place, layout.size());
          }
        }
      }
      EXPECT_EQ(places.size(), layout.size());
    }
  }
}

TEST(CounterLayout, KindsDoNotOverlap) {
  const CounterLayout layout = make_counter_layout(11, 7, 3, 2);
  std::uint32_t end = 0;
  for (std::uint32_t i = 0; i < kNumCounters; ++i) {
    const auto counter = static_cast<Counter>(i);
    const std::uint32_t count = counter <= Counter::kCombined    ? 11
                                : counter <= Counter::kPulled    ? 7
                                : counter == Counter::kPieces    ? 3
                                : counter <= Counter::kSharedOut ? 2
                                                                 : 1;
    EXPECT_EQ(layout.index(counter, 0), end);
    end += count;
  }
  EXPECT_EQ(layout.size(), end);
}

}  // namespace
}  // namespace mok
