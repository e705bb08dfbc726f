// bounds_test.cpp: a correct bf16/fp32 implementation stays inside the bounds, a wrong one does
// not.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <functional>
#include <ostream>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "emulation.hpp"
#include "random_case.hpp"
#include "reference/compare.hpp"

namespace mok::reference::testing {
namespace {

Comparison compare_one(const Emulated& got, const Expected& expected, Output output) {
  return compare(std::span<const float>(got[static_cast<std::size_t>(output)]), expected[output]);
}

std::int64_t multiple_of_8(std::mt19937_64& generator, std::int64_t most) {
  return 8 * (1 + static_cast<std::int64_t>(generator() % static_cast<std::uint64_t>(most / 8)));
}

CaseSpec draw_spec(std::mt19937_64& generator, std::uint64_t seed) {
  CaseSpec spec;
  spec.num_tokens = 1 + static_cast<std::int64_t>(generator() % 24);
  spec.hidden = multiple_of_8(generator, 96);
  do {
    spec.intermediate = multiple_of_8(generator, 64);
  } while (spec.intermediate == spec.hidden);
  do {
    spec.shared_intermediate = generator() % 4 == 0 ? 0 : multiple_of_8(generator, 56);
  } while (spec.shared_intermediate == spec.hidden ||
           spec.shared_intermediate == spec.intermediate);
  spec.num_experts = 1 + static_cast<std::int64_t>(generator() % 6);
  spec.topk = 1 + static_cast<std::int64_t>(generator() % 4);
  spec.has_output_gate = generator() % 2 == 0;
  const float limits[] = {0.0F, 0.5F, 1.0F, 2.0F};
  spec.swiglu_limit = limits[generator() % 4];
  spec.seed = seed;
  return spec;
}

struct ModelCase {
  std::string name;
  AccumulationModel accumulation;
  GradientType gradient;
  float main_grad_initial;
  friend std::ostream& operator<<(std::ostream& out, const ModelCase& c) { return out << c.name; }
};

class BoundsTest : public ::testing::TestWithParam<ModelCase> {};

TEST_P(BoundsTest, CorrectImplementationIsInsideAndNotFarInside) {
  std::mt19937_64 generator(20261201);
  std::array<double, kNumOutputs> worst{};
  for (std::uint64_t seed = 1; seed <= 24; ++seed) {
    const CaseSpec spec = draw_spec(generator, seed);
    const RandomCase random(spec);
    Problem problem = random.problem();
    problem.accumulation = GetParam().accumulation;
    problem.gradient = GetParam().gradient;
    problem.main_grad_initial = GetParam().main_grad_initial;
    ASSERT_TRUE(check(problem).ok()) << check(problem).message();
    const Expected expected = compute(problem, 1);
    const Emulated got = Emulation(problem).run();
    for (const Output output : kAllOutputs) {
      const Comparison c = compare_one(got, expected, output);
      EXPECT_LT(c.error_over_bound, 1.0)
          << output_name(output) << " seed " << seed << " H " << spec.hidden << " I "
          << spec.intermediate << " S " << spec.shared_intermediate << " L " << spec.swiglu_limit
          << " at " << c.worst_index << ": " << c.worst_result << " for " << c.worst_reference
          << " +- " << c.worst_bound;
      EXPECT_EQ(c.num_unchecked, 0);
      double& so_far = worst[static_cast<std::size_t>(output)];
      so_far = std::max(so_far, c.error_over_bound);
    }
  }
  for (const Output output : kAllOutputs) {
    const double ratio = worst[static_cast<std::size_t>(output)];
    EXPECT_GT(ratio, 0.01) << output_name(output);
    RecordProperty("error_over_bound_" + std::string(output_name(output)), std::to_string(ratio));
    std::printf("  %-20s error/bound %.3f\n", std::string(output_name(output)).c_str(), ratio);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, BoundsTest,
    ::testing::Values(
        ModelCase{"nearest_bf16", AccumulationModel::kRoundToNearest, GradientType::kBf16, 0.0F},
        ModelCase{"nearest_fp32", AccumulationModel::kRoundToNearest, GradientType::kFp32, 0.0F},
        ModelCase{"nearest_main_grad", AccumulationModel::kRoundToNearest, GradientType::kMainGrad,
                  1.0F},
        ModelCase{"pair_dot_fp32", AccumulationModel::kPairDot, GradientType::kFp32, 0.0F},
        ModelCase{"tensor_core_fp32", AccumulationModel::kTensorCore, GradientType::kFp32, 0.0F}),
    [](const auto& model) { return model.param.name; });

// Numbers near the end of the range of bf16: underflow in every product.
TEST(Bounds, CoverUnderflow) {
  for (const AccumulationModel model :
       {AccumulationModel::kRoundToNearest, AccumulationModel::kPairDot}) {
    RandomCase random({.num_tokens = 12, .hidden = 32, .intermediate = 16, .seed = 5});
    for (std::vector<Bf16>* array : {&random.x, &random.dy}) {
      for (std::size_t i = 0; i < array->size(); ++i) {
        (*array)[i] = to_bf16(to_float((*array)[i]) * (i % 3 == 0 ? 0x1p-127F : 0x1p-124F));
      }
    }
    Problem problem = random.problem();
    problem.accumulation = model;
    const Expected expected = compute(problem, 1);
    const Emulated got = Emulation(problem).run();
    for (const Output output : kAllOutputs) {
      EXPECT_LT(compare_one(got, expected, output).error_over_bound, 1.0) << output_name(output);
    }
  }
}

// Gates so near the limit that the rounding to bf16 decides on which side they are.
TEST(Bounds, CoverBothSidesOfTheClampWithinTheErrorOfThePreactivation) {
  RandomCase random({.num_tokens = 1,
                     .hidden = 8,
                     .intermediate = 512,
                     .shared_intermediate = 0,
                     .num_experts = 1,
                     .topk = 1,
                     .swiglu_limit = 1.0F,
                     .seed = 9});
  random.ids[0] = 0;
  std::mt19937_64 generator(9);
  for (Bf16& v : random.x) {
    v = to_bf16(0.353F);
  }
  // Sums of eight numbers close to 1/8 each: within 1% of the limit, on both sides.
  for (std::vector<Bf16>* array : {&random.gate, &random.up}) {
    for (Bf16& v : *array) {
      v = to_bf16(0.351F + 0.002F * static_cast<float>(generator() % 4));
    }
  }
  const Problem problem = random.problem();
  const Expected expected = compute(problem, 1);
  const Emulated got = Emulation(problem).run();
  for (const Output output :
       {Output::kY, Output::kDx, Output::kDRouter, Output::kDGate, Output::kDUp, Output::kDDown}) {
    EXPECT_LT(compare_one(got, expected, output).error_over_bound, 1.0) << output_name(output);
  }
  for (const Output output : {Output::kDGate, Output::kDUp}) {
    int num_different_sides = 0;
    int num_stopped = 0;
    for (std::size_t i = 0; i < expected[output].value.size(); ++i) {
      const bool is_stopped = got[static_cast<std::size_t>(output)][i] == 0.0F;
      num_stopped += is_stopped ? 1 : 0;
      num_different_sides += is_stopped != (expected[output].value[i] == 0.0) ? 1 : 0;
    }
    EXPECT_GT(num_different_sides, 0) << output_name(output);  // else the test shows nothing
    EXPECT_GT(num_stopped, 0) << output_name(output);
    EXPECT_LT(num_stopped, 512 * 8) << output_name(output);
  }
}

using Damage = std::function<void(RandomCase&)>;
struct Control {
  std::string name;
  std::vector<Output> outputs;  // where the damage must exceed the bound
  Damage damage;
  friend std::ostream& operator<<(std::ostream& out, const Control& c) { return out << c.name; }
};

// The damaged place: the last token's first slot, which is expert 3's only row.
std::size_t damaged_place(const RandomCase& random) {
  return static_cast<std::size_t>((random.sizes.num_tokens - 1) * random.sizes.topk);
}

RandomCase control_case(AccumulationModel model, GradientType gradient, std::uint64_t seed) {
  RandomCase random({.num_tokens = 40,
                     .hidden = 128,
                     .intermediate = 48,
                     .shared_intermediate = 24,
                     .num_experts = 4,
                     .topk = 4,
                     .seed = seed});
  random.sizes.accumulation = model;
  random.sizes.gradient = gradient;
  std::replace(random.ids.begin(), random.ids.end(), 3, 2);
  const std::size_t place = damaged_place(random);
  random.ids[place] = 3;
  random.ids[place + 1] = 0;
  random.weights[place] = 0.5F;
  random.weights[place + 1] = 0.25F;
  return random;
}

class NegativeControl : public ::testing::TestWithParam<Control> {};

TEST_P(NegativeControl, ExceedsTheBound) {
  const std::pair<AccumulationModel, GradientType> kinds[] = {
      {AccumulationModel::kRoundToNearest, GradientType::kBf16},
      {AccumulationModel::kPairDot, GradientType::kMainGrad},
      {AccumulationModel::kTensorCore, GradientType::kFp32}};
  for (const auto& [model, gradient] : kinds) {
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      const RandomCase random = control_case(model, gradient, seed);
      const Problem right = random.problem();
      const Expected expected = compute(right, 1);
      const Emulated correct = Emulation(right).run();
      RandomCase damaged = random;
      GetParam().damage(damaged);
      const Problem wrong = damaged.problem();
      const Emulated got = Emulation(wrong).run();
      for (const Output output : GetParam().outputs) {
        EXPECT_LT(compare_one(correct, expected, output).error_over_bound, 1.0);
        EXPECT_GT(compare_one(got, expected, output).error_over_bound, 1.0)
            << GetParam().name << ", " << output_name(output) << ", seed " << seed;
      }
    }
  }
}

// A weight that is 1% off stays inside the worst case of y and dx: the roundings of gate, up and h
// alone may add up to 3 * 0.4% of each product, all of one sign. The weight's own gradients are not
// sums over I, so the bound is sharp there for an expert with few rows.
INSTANTIATE_TEST_SUITE_P(
    Controls, NegativeControl,
    ::testing::Values(Control{"dropped_slot",
                              {Output::kY, Output::kDx, Output::kDRouter, Output::kDGate,
                               Output::kDUp, Output::kDDown},
                              [](RandomCase& c) { c.ids[damaged_place(c)] = -1; }},
                      Control{"swapped_experts",
                              {Output::kY, Output::kDx, Output::kDRouter, Output::kDGate,
                               Output::kDUp, Output::kDDown},
                              [](RandomCase& c) {
                                std::swap(c.ids[damaged_place(c)], c.ids[damaged_place(c) + 1]);
                              }},
                      Control{"weight_one_percent_off",
                              {Output::kDDown, Output::kDUp},
                              [](RandomCase& c) { c.weights[damaged_place(c)] *= 1.01F; }}),
    [](const auto& control) { return control.param.name; });

// A gradient row counted twice: the block of an expert doubled.
TEST(Bounds, DoubledRowExceedsTheBoundOfTheWeightGradients) {
  RandomCase random({.num_tokens = 40, .hidden = 32, .intermediate = 16, .topk = 1, .seed = 3});
  const Expected expected = compute(random.problem(), 1);
  RandomCase doubled = random;
  const auto add = [](auto& array, std::int64_t width) {
    array.insert(array.end(), array.begin(), array.begin() + width);
  };
  add(doubled.x, random.sizes.hidden);
  add(doubled.dy, random.sizes.hidden);
  add(doubled.ids, random.sizes.topk);
  add(doubled.weights, random.sizes.topk);
  ASSERT_GE(random.ids[0], 0);
  doubled.sizes.num_tokens += 1;
  const Problem wrong = doubled.problem();
  const Emulated got = Emulation(wrong).run();
  for (const Output output : {Output::kDGate, Output::kDUp, Output::kDDown, Output::kDSharedGate,
                              Output::kDSharedUp, Output::kDSharedDown}) {
    EXPECT_GT(compare_one(got, expected, output).error_over_bound, 1.0) << output_name(output);
  }
}

}  // namespace
}  // namespace mok::reference::testing
