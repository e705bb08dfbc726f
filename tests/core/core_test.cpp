// core_test.cpp: bf16 rounding, offsets that leave 64 bits, the split of experts, one-line messages.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>

#include "core/bf16.hpp"
#include "core/carver.hpp"
#include "core/geometry.hpp"
#include "mok/status.hpp"

namespace mok {
namespace {

// The nearest of the two neighbours, ties to the even one, found in double.
float nearest_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto low = std::bit_cast<float>(bits & 0xffff0000U);
  const auto high = std::bit_cast<float>((bits & 0xffff0000U) + 0x10000U);
  const double to_low = std::abs(double{value} - double{low});
  const double to_high = std::abs(double{high} - double{value});
  if (to_low != to_high) {
    return to_low < to_high ? low : high;
  }
  return (bits & 0x10000U) == 0 ? low : high;
}

TEST(Bf16, RoundsToNearestEven) {
  std::mt19937 random(1);
  for (int i = 0; i < 200'000; ++i) {
    const std::uint32_t bits =
        static_cast<std::uint32_t>(random()) & (i % 4 == 0 ? 0xffff8000U : ~0U);
    const auto value = std::bit_cast<float>(bits);
    if (std::isfinite(value) && std::abs(value) < 1e38F) {
      ASSERT_EQ(round_bf16(value), nearest_bf16(value)) << std::hexfloat << value;
    }
  }
  EXPECT_TRUE(std::isinf(round_bf16(3.4e38F)));
  EXPECT_TRUE(std::isnan(round_bf16(std::bit_cast<float>(0x7f800001U))));
  EXPECT_EQ(to_bf16(-0.0F).bits, 0x8000U);
}

TEST(Carver, SticksAtTheMaximum) {
  Carver carver;
  EXPECT_EQ(carver.take(3, 4), 0U);
  EXPECT_EQ(carver.take(1, 1), 256U);
  EXPECT_EQ(carver.bytes(), 512U);
  EXPECT_FALSE(carver.overflow());
  carver.take(std::uint64_t{1} << 63U, 4);
  EXPECT_TRUE(carver.overflow());
  carver.take(1, 1);
  EXPECT_TRUE(carver.overflow());
}

TEST(Experts, ContiguousRangesCoverAllOfThem) {
  for (const std::uint32_t experts : {1U, 2U, 7U, 60U, 384U, 1024U}) {
    for (const std::uint32_t ranks : {1U, 2U, 3U, 8U, 72U, 576U}) {
      std::uint32_t next = 0;
      for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        ASSERT_EQ(expert_begin(experts, ranks, rank), next);
        const std::uint32_t count = local_experts(experts, ranks, rank);
        ASSERT_LE(count, ceil_div(experts, ranks));
        next += count;
      }
      ASSERT_EQ(next, experts);
    }
  }
}

TEST(Status, MessagesAreOneLine) {
  const Status bad = Status::bad_argument("x\ny", "\x1b[31m", "must\r\nbe");
  EXPECT_EQ(bad.message(), "bad_argument: x?y = ?[31m: must??be");
  const Status late = Status::wait_failed(Code::kTimeout, {2, "rows", 128, 64, 7, 0});
  EXPECT_EQ(late.message(),
            "timeout: rank 2 at rows, expected 128, seen 64, call 7, reported by rank 0");
  EXPECT_EQ(Status::poisoned(late).message(),
            "poisoned: rank 2 at rows, expected 128, seen 64, call 7, reported by rank 0");
  EXPECT_EQ(Status{}.message(), "ok");
}

TEST(Status, ExitStatusOfEachCode) {
  EXPECT_EQ(exit_status(Code::kOk), 0);
  for (const Code code : {Code::kCheckFailed, Code::kInternal}) {
    EXPECT_EQ(exit_status(code), 1);
  }
  for (const Code code : {Code::kBadArgument, Code::kBadFile, Code::kEnvironment}) {
    EXPECT_EQ(exit_status(code), 2);
  }
  for (const Code code :
       {Code::kTimeout, Code::kPeerLost, Code::kCallMismatch, Code::kAborted, Code::kPoisoned}) {
    EXPECT_EQ(exit_status(code), 3);
    EXPECT_NE(code_name(code), "unknown");
  }
}

}  // namespace
}  // namespace mok
