// gradients_test.cpp: y against a second double forward; all gradients against central differences
// of it.
#include <gtest/gtest.h>

#include <cmath>

#include "exact_layer.hpp"
#include "random_case.hpp"

namespace mok::reference::testing {
namespace {

// d loss / d input, element by element. The step's error is step^2 times the third derivative and
// 1e-16 * loss / step: both far below the tolerance used here.
std::vector<double> differences(const ExactLayer& exact, std::vector<double> ExactLayer::*input) {
  constexpr double kStep = 1e-5;
  ExactLayer layer = exact;
  std::vector<double> result;
  for (std::size_t i = 0; i < (layer.*input).size(); ++i) {
    const double here = (layer.*input)[i];
    (layer.*input)[i] = here + kStep;
    const double above = layer.loss();
    (layer.*input)[i] = here - kStep;
    const double below = layer.loss();
    (layer.*input)[i] = here;
    result.push_back((above - below) / (2 * kStep));
  }
  return result;
}

void expect_near(const std::vector<double>& value, const std::vector<double>& wanted,
                 double tolerance, Output output) {
  ASSERT_EQ(value.size(), wanted.size()) << output_name(output);
  double largest = 0.0;
  for (const double w : wanted) {
    largest = std::max(largest, std::abs(w));
  }
  EXPECT_GT(largest, 0.0) << output_name(output);
  for (std::size_t i = 0; i < value.size(); ++i) {
    EXPECT_NEAR(value[i], wanted[i], tolerance * (1.0 + largest))
        << output_name(output) << " " << i;
  }
}

class Gradients : public ::testing::TestWithParam<CaseSpec> {};

TEST_P(Gradients, AgreeWithCentralDifferences) {
  const CaseSpec spec = GetParam();
  const RandomCase random(spec);
  const Problem problem = random.problem();
  ASSERT_TRUE(check(problem).ok()) << check(problem).message();
  const Expected expected = compute(problem, 1);
  const ExactLayer exact(random);
  expect_near(expected[Output::kY].value, exact.forward(), 1e-13, Output::kY);

  struct Pair {
    Output output;
    std::vector<double> ExactLayer::*input;
  };
  std::vector<Pair> pairs = {{Output::kDx, &ExactLayer::x},
                             {Output::kDRouter, &ExactLayer::weights},
                             {Output::kDGate, &ExactLayer::gate},
                             {Output::kDUp, &ExactLayer::up},
                             {Output::kDDown, &ExactLayer::down}};
  if (spec.shared_intermediate > 0) {
    pairs.push_back({Output::kDSharedGate, &ExactLayer::shared_gate});
    pairs.push_back({Output::kDSharedUp, &ExactLayer::shared_up});
    pairs.push_back({Output::kDSharedDown, &ExactLayer::shared_down});
    if (spec.has_output_gate) {
      pairs.push_back({Output::kDSharedOutputGate, &ExactLayer::output_gate});
    } else {
      EXPECT_TRUE(expected[Output::kDSharedOutputGate].value.empty());
    }
  } else {
    EXPECT_TRUE(expected[Output::kDSharedGate].value.empty());
  }
  for (const Pair& pair : pairs) {
    expect_near(expected[pair.output].value, differences(exact, pair.input), 1e-8, pair.output);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Cases, Gradients,
    ::testing::Values(
        CaseSpec{.hidden = 16, .intermediate = 8, .shared_intermediate = 24, .topk = 2, .seed = 1},
        CaseSpec{.hidden = 8, .intermediate = 16, .shared_intermediate = 0, .topk = 1, .seed = 2},
        CaseSpec{.num_tokens = 9,
                 .hidden = 8,
                 .intermediate = 24,
                 .shared_intermediate = 16,
                 .num_experts = 3,
                 .topk = 3,
                 .has_output_gate = false,
                 .swiglu_limit = 0.75F,
                 .seed = 3},
        CaseSpec{.num_tokens = 7,
                 .hidden = 24,
                 .intermediate = 8,
                 .shared_intermediate = 16,
                 .num_experts = 5,
                 .topk = 4,
                 .swiglu_limit = 0.5F,
                 .seed = 4},
        // More rows at one expert than one chunk of the reference holds.
        CaseSpec{.num_tokens = 90,
                 .hidden = 8,
                 .intermediate = 8,
                 .shared_intermediate = 8,
                 .num_experts = 1,
                 .topk = 2,
                 .seed = 5}));

}  // namespace
}  // namespace mok::reference::testing
