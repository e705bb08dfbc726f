// draw_test.cpp: the generator against published answers, and the distributions drawn from it.
#include "io/draw.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <set>
#include <vector>

#include "io/hash.hpp"
#include "io/portable_math.hpp"

namespace mok::io {
namespace {

constexpr std::uint64_t kStream = stream_id(Purpose::kTestCase, 3, 5);

// From the known-answer file that the authors of Philox publish.
TEST(Draw, PhiloxKnownAnswers) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
            (PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Draw, SeedStreamAndIndexAllMatter) {
  std::set<std::uint64_t> seen;
  std::size_t num_drawn = 0;
  for (const std::uint64_t seed : {0ULL, 1ULL, 1ULL << 32, ~0ULL}) {
    for (const std::uint64_t stream : {0ULL, 1ULL, 1ULL << 32, ~0ULL}) {
      for (const std::uint64_t index : {0ULL, 1ULL, 2ULL, 3ULL, 1ULL << 33, ~0ULL}) {
        seen.insert(bits64(seed, stream, index));
        ++num_drawn;
      }
    }
  }
  EXPECT_EQ(seen.size(), num_drawn);
}

TEST(Draw, StreamsOfPurposesLayersAndMicrobatchesAreDistinct) {
  std::set<std::uint64_t> streams;
  for (const Purpose purpose : {Purpose::kTokenState, Purpose::kRoutingLogit}) {
    for (const std::uint32_t layer : {0U, 1U, 0xffffffU}) {
      for (const std::uint32_t microbatch : {0U, 1U, 0xffffffU}) {
        streams.insert(stream_id(purpose, layer, microbatch));
      }
    }
  }
  EXPECT_EQ(streams.size(), 18U);
}

TEST(Draw, FillsEqualSingleDrawsForAnySplit) {
  constexpr std::uint64_t kSeed = 42;
  constexpr std::size_t kCount = 1500;
  for (const std::uint64_t first : {0ULL, 1ULL, 3ULL, 1022ULL, (1ULL << 40) + 1}) {
    std::vector<float> single(kCount);
    for (std::size_t i = 0; i < kCount; ++i) {
      single[i] = normal(kSeed, kStream, first + i);
    }
    for (const std::size_t step : {1UL, 2UL, 5UL, 64UL, 255UL, 256UL, 257UL, kCount}) {
      std::vector<float> filled(kCount, NAN);
      std::vector<Bf16> rounded(kCount);
      for (std::size_t at = 0; at < kCount; at += step) {
        const std::size_t length = std::min(step, kCount - at);
        fill_normal(std::span(filled).subspan(at, length), kSeed, kStream, first + at);
        fill_normal_bf16(std::span(rounded).subspan(at, length), kSeed, kStream, first + at, 0.5F);
      }
      ASSERT_EQ(filled, single) << first << " by " << step;
      for (std::size_t i = 0; i < kCount; ++i) {
        ASSERT_EQ(rounded[i], to_bf16(0.5F * single[i])) << first << " by " << step << " at " << i;
      }
    }
  }
  fill_normal({}, kSeed, kStream, 0);  // nothing to do, nothing to break
}

// Box-Muller once more in binary64 with the C library, from the same words.
TEST(Draw, NormalAgreesWithBinary64) {
  for (std::uint32_t i = 0; i < 4000; ++i) {
    const PhiloxCounter words = philox4x32({i / 4, 0, 9, 0}, {7, 0});
    const std::size_t pair = i % 4 / 2 * 2;
    const double u = ((words[pair] >> 1) + 0.5) * 0x1p-31;
    const std::uint32_t angle_word = words[pair + 1];
    const double turns = (angle_word >> 30) * 0.25 +
                         (((angle_word >> 8) & 0x3fffffU) + 0.5 - (1 << 21)) * 0.25 * 0x1p-22;
    const double angle = turns * 2.0 * std::numbers::pi;
    const double radius = std::sqrt(-2.0 * std::log(u));
    const double expected = radius * (i % 2 == 0 ? std::cos(angle) : std::sin(angle));
    // u is rounded to binary32 before its logarithm: relative 2^-24, so up to 2^-24 / radius.
    EXPECT_NEAR(normal(7, 9, i), expected, 1e-6 * radius + 0x1p-24 / radius) << i;
  }
}

TEST(Draw, NormalHasItsMomentsAndDistribution) {
  constexpr std::size_t kCount = 1 << 20;
  std::vector<float> values(kCount);
  fill_normal(values, 2026, kStream, 0);
  double sums[5] = {};
  double lag = 0.0;
  for (std::size_t i = 0; i < kCount; ++i) {
    const double v = values[i];
    double power = 1.0;
    for (double& sum : sums) {
      sum += power;
      power *= v;
    }
    lag += v * static_cast<double>(values[(i + 1) % kCount]);
  }
  // Five standard errors: the variances of x, x^2, x^3, x^4 are 1, 2, 15, 96.
  const double error = 5.0 / std::sqrt(static_cast<double>(kCount));
  EXPECT_NEAR(sums[1] / kCount, 0.0, error);
  EXPECT_NEAR(sums[2] / kCount, 1.0, error * std::sqrt(2.0));
  EXPECT_NEAR(sums[3] / kCount, 0.0, error * std::sqrt(15.0));
  EXPECT_NEAR(sums[4] / kCount, 3.0, error * std::sqrt(96.0));
  EXPECT_NEAR(lag / kCount, 0.0, error);
  // Kolmogorov-Smirnov: 2 / sqrt(n) is passed by chance once in 1,500.
  std::sort(values.begin(), values.end());
  double distance = 0.0;
  for (std::size_t i = 0; i < kCount; ++i) {
    const double expected = 0.5 * std::erfc(-static_cast<double>(values[i]) / std::sqrt(2.0));
    distance = std::max(distance, std::abs((static_cast<double>(i) + 0.5) / kCount - expected));
  }
  EXPECT_LT(distance, 2.0 / std::sqrt(static_cast<double>(kCount)));
  EXPECT_LT(values.back(), 6.7F);
  EXPECT_GT(values.back(), 4.0F);
}

TEST(Draw, UniformsFillTheirRange) {
  constexpr int kCount = 100000;
  double sum = 0.0;
  double smallest = 1.0;
  double largest = 0.0;
  std::vector<int> hits(7);
  for (std::uint64_t i = 0; i < kCount; ++i) {
    const double u = uniform01(1, kStream, i);
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    sum += u;
    smallest = std::min(smallest, u);
    largest = std::max(largest, u);
    const std::uint64_t pick = below(7, 1, kStream, i);
    ASSERT_LT(pick, 7U);
    ++hits[pick];
    ASSERT_EQ(below(1, 1, kStream, i), 0U);
    ASSERT_EQ(below(std::uint64_t{1} << 63, 1, kStream, i), bits64(1, kStream, i) >> 1);
    ASSERT_EQ(below(std::uint64_t{1} << 8, 1, kStream, i), bits64(1, kStream, i) >> 56);
  }
  EXPECT_NEAR(sum / kCount, 0.5, 5.0 / std::sqrt(12.0 * kCount));
  EXPECT_LT(smallest, 1e-3);
  EXPECT_GT(largest, 0.999);
  for (const int count : hits) {
    EXPECT_NEAR(count, kCount / 7.0, 5.0 * std::sqrt(kCount / 7.0));
  }
}

TEST(Draw, WordStateDependsOnWordAndSeedOnly) {
  std::vector<Bf16> row(96);
  std::vector<Bf16> again(96);
  std::vector<Bf16> shorter(33);
  fill_word_state(row, "licence", 5);
  fill_word_state(again, "licence", 5);
  EXPECT_EQ(row, again);
  fill_word_state(shorter, "licence", 5);
  EXPECT_TRUE(std::equal(shorter.begin(), shorter.end(), row.begin()));
  fill_word_state(again, "licence", 6);
  EXPECT_NE(row, again);
  fill_word_state(again, "licences", 5);
  EXPECT_NE(row, again);
}

TEST(PortableMath, AgreesWithTheLibrary) {
  for (int i = 1; i < 4000; ++i) {
    const float x = std::ldexp(static_cast<float>(i) / 1000.0F, i % 200 - 100);
    const double expected = std::log(static_cast<double>(x));
    EXPECT_NEAR(portable_log(x), expected, 2e-7 * std::max(std::abs(expected), 0.5)) << x;
  }
  for (int i = 0; i <= 8700; ++i) {
    const float x = static_cast<float>(i) * -0.01F;
    const double expected = std::exp(static_cast<double>(x));
    EXPECT_NEAR(portable_exp(x), expected, 2.5e-7 * expected) << x;
  }
  EXPECT_EQ(portable_exp(0.0F), 1.0F);
  EXPECT_EQ(portable_exp(-INFINITY), 0.0F);
  EXPECT_EQ(portable_log(1.0F), 0.0F);
  for (int i = -785; i <= 785; ++i) {
    const float t = static_cast<float>(i) * 0.001F;
    EXPECT_NEAR(portable_sin(t), std::sin(static_cast<double>(t)), 1.2e-7) << t;
    EXPECT_NEAR(portable_cos(t), std::cos(static_cast<double>(t)), 1.2e-7) << t;
  }
}

// Pins the bits: equal seeds give equal batches in every build, so a change here breaks users.
TEST(Draw, BitsArePinned) {
  std::vector<Bf16> values(4096);
  fill_normal_bf16(values, 1, stream_id(Purpose::kTokenState), 0);
  EXPECT_EQ(hash_text(xxh64(std::as_bytes(std::span(values)))), "xxh64:2c427c476f2e2de9");
  std::vector<float> exact(4096);
  fill_normal(exact, 1, stream_id(Purpose::kTokenState), 0);
  EXPECT_EQ(hash_text(xxh64(std::as_bytes(std::span(exact)))), "xxh64:8d9a7cebacb4a80d");
  fill_word_state(values, "the", 1);
  EXPECT_EQ(hash_text(xxh64(std::as_bytes(std::span(values)))), "xxh64:f56f19bf29133724");
}

}  // namespace
}  // namespace mok::io
