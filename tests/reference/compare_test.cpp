// compare_test.cpp: the error measures and their corner cases.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "reference/compare.hpp"

namespace mok::reference {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

Comparison compare_floats(const std::vector<float>& result, const Expected::Array& expected) {
  return compare(std::span<const float>(result), expected);
}

TEST(Compare, MeasuresAndWorstIndex) {
  const Expected::Array expected{{1.0, -4.0, 0.0}, {0.5, 0.5, 0.0}};
  const Comparison c = compare_floats({1.25F, -4.375F, 0.0F}, expected);
  EXPECT_DOUBLE_EQ(c.max_abs_err, 0.375);
  EXPECT_DOUBLE_EQ(c.max_abs_reference, 4.0);
  EXPECT_DOUBLE_EQ(c.rel_err, 0.375 / 4.0);
  EXPECT_DOUBLE_EQ(c.error_over_bound, 0.75);
  EXPECT_EQ(c.worst_index, 1);
  EXPECT_DOUBLE_EQ(c.worst_result, -4.375);
  EXPECT_DOUBLE_EQ(c.worst_reference, -4.0);
  EXPECT_EQ(c.num_compared, 3);
  EXPECT_EQ(c.num_unchecked, 0);
}

TEST(Compare, Bf16) {
  const std::vector<Bf16> result = {to_bf16(1.5F)};
  const Comparison c = compare(std::span<const Bf16>(result), {{1.0}, {1.0}});
  EXPECT_DOUBLE_EQ(c.error_over_bound, 0.5);
}

TEST(Compare, ZeroBoundAdmitsNothing) {
  EXPECT_EQ(compare_floats({0.0F}, {{0.0}, {0.0}}).error_over_bound, 0.0);
  EXPECT_EQ(compare_floats({-0.0F}, {{0.0}, {0.0}}).error_over_bound, 0.0);
  const Comparison c = compare_floats({0.0F, 1e-30F}, {{0.0, 0.0}, {0.0, 0.0}});
  EXPECT_TRUE(std::isinf(c.error_over_bound));
  EXPECT_EQ(c.worst_index, 1);
  EXPECT_TRUE(std::isinf(c.rel_err));
}

TEST(Compare, NanInTheResultIsInfinitelyWrong) {
  const Comparison c = compare_floats({1.0F, kNan, 2.0F}, {{1.0, 1.0, 1.0}, {1.0, 1.0, 1.0}});
  EXPECT_TRUE(std::isinf(c.max_abs_err));
  EXPECT_TRUE(std::isinf(c.rel_err));
  EXPECT_TRUE(std::isinf(c.error_over_bound));
  EXPECT_EQ(c.worst_index, 1);
  EXPECT_TRUE(std::isinf(compare_floats({kInf}, {{1.0}, {1.0}}).error_over_bound));
}

TEST(Compare, ReferenceThatIsNotFiniteIsCountedNotCompared) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double inf = std::numeric_limits<double>::infinity();
  const Comparison c =
      compare_floats({kNan, 1.5F, kInf, 3.0F}, {{nan, 1.0, 1.0, 1.0}, {1.0, 1.0, inf, nan}});
  EXPECT_DOUBLE_EQ(c.error_over_bound, 0.5);
  EXPECT_EQ(c.num_unchecked, 3);
  EXPECT_EQ(c.num_compared, 1);
}

TEST(Compare, AnotherSizeIsInfinitelyWrong) {
  EXPECT_TRUE(std::isinf(compare_floats({1.0F}, {}).error_over_bound));
  EXPECT_EQ(compare_floats({}, {}).error_over_bound, 0.0);
}

TEST(Compare, Sampled) {
  SampledExpected expected;
  expected.values = {{Output::kY, 2, 1.0, 1.0}, {Output::kDx, 0, 9.0, 1.0}};
  const std::vector<float> result = {100.0F, 100.0F, 1.25F};
  const Comparison c = compare(std::span<const float>(result), Output::kY, expected);
  EXPECT_DOUBLE_EQ(c.error_over_bound, 0.25);
  EXPECT_EQ(c.worst_index, 2);
  EXPECT_EQ(c.num_compared, 1);
  // Nothing to look at, and an index beyond the array.
  EXPECT_TRUE(
      std::isinf(compare(std::span<const float>(result), Output::kDUp, expected).error_over_bound));
  const std::vector<float> too_short = {1.0F};
  EXPECT_TRUE(std::isinf(
      compare(std::span<const float>(too_short), Output::kY, expected).error_over_bound));
}

}  // namespace
}  // namespace mok::reference
