// error_model_test.cpp: the constants of the bounds against what arithmetic really does.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "reference/error_model.hpp"

namespace mok::reference {
namespace {

const ErrorModel kNearest(AccumulationModel::kRoundToNearest);

// The unit of bf16 is 2^-8: attained (in the limit) just above a power of two, never exceeded.
TEST(ErrorModel, Bf16UnitIsTwoToTheMinusEight) {
  double worst = 0.0;
  for (std::uint32_t bits = 0x3f800000U; bits < 0x40000000U; bits += 7) {
    const float v = std::bit_cast<float>(bits);
    const double exact = static_cast<double>(v);
    const double error = std::abs(static_cast<double>(round_bf16(v)) - exact);
    ASSERT_LE(error, kNearest.round_bf16({exact, 0.0}).error);
    worst = std::max(worst, error / exact);
  }
  EXPECT_LE(worst, kUnitBf16);
  EXPECT_GT(worst, 0.99 * kUnitBf16);
}

TEST(ErrorModel, Bf16RoundingOfAnyMagnitude) {
  std::mt19937 generator(5);
  for (int i = 0; i < 300000; ++i) {
    const float v = std::bit_cast<float>(static_cast<std::uint32_t>(generator()) & 0x7f7effffU);
    const double exact = static_cast<double>(v);
    const double error = std::abs(static_cast<double>(round_bf16(v)) - exact);
    ASSERT_LE(error, kNearest.round_bf16({exact, 0.0}).error) << v;
  }
  EXPECT_EQ(kNearest.round_bf16({0.0, 0.0}).error, 0.0);
  // The largest finite bf16 is 0x1.fep127; what rounds beyond it cannot be checked.
  EXPECT_TRUE(std::isfinite(kNearest.round_bf16({0x1.fep127, 0.0}).error));
  EXPECT_TRUE(std::isinf(kNearest.round_bf16({0x1.fep127, 0x1p120}).error));
}

// The rounding of an interval that crosses a power of two is that of the upper side.
TEST(ErrorModel, RoundingSeesTheWholeInterval) {
  EXPECT_DOUBLE_EQ(kNearest.round_bf16({0.999, 0.0}).error, 0x1p-9);
  EXPECT_DOUBLE_EQ(kNearest.round_bf16({0.999, 0.01}).error, 0.01 + 0x1p-8);
}

TEST(ErrorModel, DerivativeBoundsHoldOnAGrid) {
  const auto sigmoid = [](double z) { return 1.0 / (1.0 + std::exp(-z)); };
  const double step = 1e-3;
  for (double z = -30.0; z < 30.0; z += step) {
    const double s = sigmoid(z);
    const double silu_slope = s * (1.0 + z * (1.0 - s));
    const double silu_curve = s * (1.0 - s) * (2.0 + z * (1.0 - 2.0 * s));
    const double next = sigmoid(z + step);
    const double next_curve = next * (1.0 - next) * (2.0 + (z + step) * (1.0 - 2.0 * next));
    ASSERT_LE(s * (1.0 - s), kMaxSigmoidSlope + 1e-12);
    ASSERT_LE(std::abs(s * (1.0 - s) * (1.0 - 2.0 * s)), kMaxSigmoidCurve);
    ASSERT_LE(std::abs(silu_slope), kMaxSiluSlope);
    ASSERT_LE(std::abs(silu_curve), kMaxSiluCurve + 1e-12);
    ASSERT_LE(std::abs(next_curve - silu_curve) / step, kMaxSiluThird);
  }
}

// fp32 evaluations at a point that is off by up to the given error.
TEST(ErrorModel, SmoothFunctionsInFp32) {
  std::mt19937 generator(6);
  std::normal_distribution<double> normal(0.0, 6.0);
  std::uniform_real_distribution<double> inside(-1.0, 1.0);
  double worst[3] = {};
  for (int i = 0; i < 200000; ++i) {
    const double z = i % 10 == 0 ? 15.0 * normal(generator) : normal(generator);
    const double error = std::exp2(-4.0 - i % 24);
    const auto moved = static_cast<float>(z + error * inside(generator));
    const double off = std::abs(static_cast<double>(moved) - z);
    const float s = 1.0F / (1.0F + std::exp(-moved));
    const float got[3] = {s, moved * s, s * (1.0F + moved * (1.0F - s))};
    const Approx wanted[3] = {kNearest.sigmoid({z, off}), kNearest.silu({z, off}),
                              kNearest.silu_slope({z, off})};
    for (int f = 0; f < 3; ++f) {
      const double ratio =
          std::abs(static_cast<double>(got[f]) - wanted[f].value) / wanted[f].error;
      ASSERT_LE(ratio, 1.0) << "function " << f << " at " << z << " +- " << off;
      worst[f] = std::max(worst[f], ratio);
    }
  }
  for (const double w : worst) {
    EXPECT_GT(w, 0.5);  // the moved point alone nearly uses the bound up
  }
}

TEST(ErrorModel, AccumulationFactors) {
  const ErrorModel pair(AccumulationModel::kPairDot);
  const ErrorModel tensor(AccumulationModel::kTensorCore);
  EXPECT_NEAR(kNearest.sum_factor(1024), 1024 * 0x1p-24, 1024 * 0x1p-24 * 1e-3);
  EXPECT_GT(pair.sum_factor(1024), kNearest.sum_factor(1024));
  // The measured one-sided loss of an H200 (K = 8192, all positive): 3.6e-5 of the magnitudes.
  EXPECT_GT(tensor.sum_factor(8192), 3.6e-5);
  EXPECT_LT(tensor.sum_factor(8192), 10 * 3.6e-5);
  // Segments: the factor stops growing with the rows, but for one addition a segment.
  EXPECT_LT(kNearest.gradient_factor(80000, 0), 1.01 * kNearest.sum_factor(kSegmentRows));
}

TEST(ErrorModel, ClampAndItsGradient) {
  using Gradient = Clamped::Gradient;
  EXPECT_EQ(clamp_above({1.0, 0.0}, 1.0).gradient, Gradient::kPasses);
  EXPECT_EQ(clamp_above({1.1, 0.05}, 1.0).gradient, Gradient::kStopped);
  EXPECT_EQ(clamp_above({1.1, 0.05}, 1.0).limited.error, 0.0);
  EXPECT_EQ(clamp_above({0.99, 0.05}, 1.0).gradient, Gradient::kEither);
  const Clamped low = clamp_both({-1.02, 0.05}, 1.0);
  EXPECT_EQ(low.gradient, Gradient::kEither);
  EXPECT_EQ(low.limited.value, -1.0);
  EXPECT_FALSE(low.reference_passes);
  const Approx gradient = pass_gradient(low, {3.0, 0.25});
  EXPECT_EQ(gradient.value, 0.0);
  EXPECT_EQ(gradient.error, 3.25);
  EXPECT_TRUE(std::isnan(clamp_both({std::nan(""), 0.1}, 1.0).limited.value));
}

}  // namespace
}  // namespace mok::reference
