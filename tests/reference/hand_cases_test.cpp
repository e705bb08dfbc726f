// hand_cases_test.cpp: layers small enough to compute on paper.
//
// x = dy = (1, 0, ..., 0) and weights with one nonzero element per matrix: every sum has one term.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "random_case.hpp"

namespace mok::reference::testing {
namespace {

struct Hand {
  RandomCase arrays;

  explicit Hand(float gate, float up, float down, float weight, float limit = 0.0F)
      : arrays({.num_tokens = 1,
                .hidden = 8,
                .intermediate = 8,
                .shared_intermediate = 0,
                .num_experts = 2,
                .topk = 2,
                .swiglu_limit = limit,
                .seed = 1}) {
    for (std::vector<Bf16>* array :
         {&arrays.x, &arrays.dy, &arrays.gate, &arrays.up, &arrays.down}) {
      std::fill(array->begin(), array->end(), Bf16{});
    }
    const std::size_t expert_1 = 64;
    arrays.x[0] = to_bf16(1.0F);
    arrays.dy[0] = to_bf16(1.0F);
    arrays.gate[expert_1] = to_bf16(gate);
    arrays.up[expert_1] = to_bf16(up);
    arrays.down[expert_1] = to_bf16(down);
    arrays.ids = {-1, 1};
    arrays.weights = {7.0F, weight};
  }
};

double silu(double z) {
  return z / (1.0 + std::exp(-z));
}
double silu_slope(double z) {
  const double s = 1.0 / (1.0 + std::exp(-z));
  return s * (1.0 + z * (1.0 - s));
}

TEST(HandCase, OneTermOfEverything) {
  Hand hand(2.0F, 3.0F, 0.5F, -4.0F);
  hand.arrays.sizes.gradient = GradientType::kFp32;
  const Expected e = compute(hand.arrays.problem(), 1);
  const double h = silu(2.0) * 3.0;
  EXPECT_DOUBLE_EQ(e[Output::kY].value[0], -4.0 * 0.5 * h);
  EXPECT_DOUBLE_EQ(e[Output::kDRouter].value[1], 0.5 * h);
  const double dg = -4.0 * 0.5 * 3.0 * silu_slope(2.0);
  const double du = -4.0 * 0.5 * silu(2.0);
  EXPECT_DOUBLE_EQ(e[Output::kDGate].value[64], dg);
  EXPECT_DOUBLE_EQ(e[Output::kDUp].value[64], du);
  EXPECT_DOUBLE_EQ(e[Output::kDDown].value[64], -4.0 * h);
  EXPECT_DOUBLE_EQ(e[Output::kDx].value[0], 2.0 * dg + 3.0 * du);
  // The -1 route and the expert without rows: exact zeros that admit nothing else.
  EXPECT_EQ(e[Output::kDRouter].value[0], 0.0);
  EXPECT_EQ(e[Output::kDRouter].bound[0], 0.0);
  EXPECT_EQ(e[Output::kDGate].value[0], 0.0);
  EXPECT_EQ(e[Output::kDGate].bound[0], 0.0);
  EXPECT_EQ(e[Output::kY].value[1], 0.0);
  EXPECT_EQ(e[Output::kY].bound[1], 0.0);
}

// y = fl(w * fl(d * fl(h))): three roundings to bf16, and those of gate and up (exact here, but the
// bound cannot know).
TEST(HandCase, BoundCountsTheRoundingPoints) {
  const Hand hand(2.0F, 3.0F, 0.5F, -4.0F);
  const Expected e = compute(hand.arrays.problem(), 1);
  const double h = silu(2.0) * 3.0;                         // 5.28
  const double from_gate = 3.0 * silu_slope(2.0) * 0x1p-7;  // half unit of [2,4)
  const double from_up = silu(2.0) * 0x1p-7;
  const double in_h = from_gate + from_up + 0x1p-6;  // + half unit of [4,8)
  const double in_row = 0.5 * in_h + 0x1p-7;         // 2.64
  const double in_y = 4.0 * in_row + 0x1p-5;         // 10.6
  EXPECT_GT(h, 4.0);
  // Second-order terms and fp32 operations add a little.
  EXPECT_GT(e[Output::kY].bound[0], in_y);
  EXPECT_LT(e[Output::kY].bound[0], in_y * 1.01);
}

TEST(HandCase, GradientPassesExactlyAtTheLimitAndNotBeyond) {
  const Expected at = compute(Hand(2.0F, -2.0F, 0.5F, 1.0F, 2.0F).arrays.problem(), 1);
  EXPECT_DOUBLE_EQ(at[Output::kDGate].value[64], 0.5 * -2.0 * silu_slope(2.0));
  EXPECT_DOUBLE_EQ(at[Output::kDUp].value[64], 0.5 * silu(2.0));
  // At the limit an implementation may end up on either side: both answers are inside.
  EXPECT_GE(at[Output::kDGate].bound[64], std::abs(at[Output::kDGate].value[64]));
  const Expected over = compute(Hand(2.5F, -2.5F, 0.5F, 1.0F, 2.0F).arrays.problem(), 1);
  EXPECT_EQ(over[Output::kDGate].value[64], 0.0);
  EXPECT_EQ(over[Output::kDUp].value[64], 0.0);
  EXPECT_EQ(over[Output::kDGate].bound[64], 0.0);  // far enough: no other answer is right
  EXPECT_DOUBLE_EQ(over[Output::kY].value[0], 0.5 * silu(2.0) * -2.0);
  // The gate has no lower limit.
  const Expected low = compute(Hand(-2.5F, 1.0F, 0.5F, 1.0F, 2.0F).arrays.problem(), 1);
  EXPECT_DOUBLE_EQ(low[Output::kY].value[0], 0.5 * silu(-2.5));
  EXPECT_NE(low[Output::kDGate].value[64], 0.0);
}

TEST(HandCase, DuplicateIdsCountTwice) {
  Hand hand(2.0F, 3.0F, 0.5F, -4.0F);
  hand.arrays.ids = {1, 1};
  hand.arrays.weights = {1.0F, 2.0F};
  const Expected e = compute(hand.arrays.problem(), 1);
  const double yv = 0.5 * silu(2.0) * 3.0;
  EXPECT_DOUBLE_EQ(e[Output::kY].value[0], 3.0 * yv);
  EXPECT_DOUBLE_EQ(e[Output::kDRouter].value[0], yv);
  EXPECT_DOUBLE_EQ(e[Output::kDRouter].value[1], yv);
}

TEST(HandCase, MainGradIsAddedToAndUntouchedWithoutRows) {
  Hand hand(2.0F, 3.0F, 0.5F, -4.0F);
  hand.arrays.sizes.gradient = GradientType::kMainGrad;
  hand.arrays.sizes.main_grad_initial = 0.1F;
  const Expected e = compute(hand.arrays.problem(), 1);
  EXPECT_EQ(e[Output::kDDown].value[0], static_cast<double>(0.1F));
  EXPECT_EQ(e[Output::kDDown].bound[0], 0.0);
  EXPECT_DOUBLE_EQ(e[Output::kDDown].value[64], static_cast<double>(0.1F) - 4.0 * silu(2.0) * 3.0);
}

TEST(HandCase, NoTokens) {
  RandomCase random({.num_tokens = 0, .seed = 3});
  const Expected e = compute(random.problem(), 2);
  EXPECT_TRUE(e[Output::kY].value.empty());
  EXPECT_EQ(e[Output::kDGate].value.size(), random.gate.size());
  for (const double v : e[Output::kDGate].value) {
    EXPECT_EQ(v, 0.0);
  }
  EXPECT_EQ(forward_flop(random.problem()), 0.0);
}

TEST(HandCase, ForwardFlop) {
  const Hand hand(2.0F, 3.0F, 0.5F, -4.0F);
  EXPECT_EQ(forward_flop(hand.arrays.problem()), 6.0 * 8 * 8);  // one live row
  RandomCase random({.num_tokens = 5, .hidden = 16, .shared_intermediate = 24, .seed = 1});
  std::fill(random.ids.begin(), random.ids.end(), -1);
  EXPECT_EQ(forward_flop(random.problem()), 6.0 * 16 * 24 * 5);
}

TEST(Check, NamesTheArgumentTheValueAndTheRule) {
  RandomCase random({.seed = 1});
  Problem p = random.problem();
  EXPECT_TRUE(check(p).ok());
  p.hidden = 12;
  EXPECT_EQ(check(p).argument(), "hidden");
  EXPECT_EQ(check(p).value(), "12");
  EXPECT_TRUE(compute(p, 1)[Output::kY].value.empty());
  EXPECT_TRUE(compute_sample(p, {.tokens = {0}}, 1).values.empty());
  random.ids[3] = 4;
  EXPECT_EQ(check(random.problem()).argument(), "ids[3]");
  random.ids[3] = -2;
  EXPECT_EQ(check(random.problem()).value(), "-2");
  random.ids[3] = 0;
  p = random.problem();
  p.up = nullptr;
  EXPECT_EQ(check(p).argument(), "up");
  p = random.problem();
  p.swiglu_limit = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(check(p).argument(), "swiglu_limit");
  p = random.problem();
  p.shared_intermediate = 0;
  EXPECT_EQ(check(p).argument(), "shared_output_gate");
}

}  // namespace
}  // namespace mok::reference::testing
