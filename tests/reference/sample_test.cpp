// sample_test.cpp: the sampled form gives the full form's numbers; threads do not change them.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "random_case.hpp"

namespace mok::reference::testing {
namespace {

const CaseSpec kSpecs[] = {
    {.num_tokens = 150,
     .hidden = 40,
     .intermediate = 24,
     .shared_intermediate = 16,
     .num_experts = 5,
     .topk = 3,
     .swiglu_limit = 1.0F,
     .seed = 11},
    {.num_tokens = 9, .hidden = 16, .intermediate = 72, .shared_intermediate = 0, .seed = 12},
    {.num_tokens = 3,
     .hidden = 8,
     .intermediate = 16,
     .shared_intermediate = 32,
     .num_experts = 9,
     .topk = 1,
     .has_output_gate = false,
     .seed = 13},
};

TEST(Sample, EqualsTheFullFormAtTheSampledPlaces) {
  for (const CaseSpec& spec : kSpecs) {
    const RandomCase random(spec);
    for (const GradientType gradient :
         {GradientType::kBf16, GradientType::kFp32, GradientType::kMainGrad}) {
      Problem problem = random.problem();
      problem.gradient = gradient;
      problem.main_grad_initial = 1.0F;
      problem.num_ranks = 3;
      const Expected full = compute(problem, 1);
      const SampleSpec sample = draw_sample(
          problem, {.num_tokens = 5, .num_experts = 3, .num_columns = 5, .num_shared_columns = 11},
          7);
      const SampledExpected sampled = compute_sample(problem, sample, 2);
      std::set<Output> seen;
      for (const SampledValue& s : sampled.values) {
        seen.insert(s.output);
        const auto at = static_cast<std::size_t>(s.index);
        ASSERT_LT(at, full[s.output].value.size());
        ASSERT_EQ(s.value, full[s.output].value[at]) << output_name(s.output) << " " << at;
        ASSERT_EQ(s.bound, full[s.output].bound[at]) << output_name(s.output) << " " << at;
      }
      std::size_t num_outputs = 6;
      num_outputs += spec.shared_intermediate > 0 ? 3 : 0;
      num_outputs += spec.shared_intermediate > 0 && spec.has_output_gate ? 1 : 0;
      EXPECT_EQ(seen.size(), num_outputs);
    }
  }
}

TEST(Sample, DrawsWithoutRepetitionAndReachesTheBusiestExpert) {
  RandomCase random({.num_tokens = 50, .num_experts = 40, .topk = 4, .seed = 3});
  for (std::size_t i = 0; i < random.ids.size(); i += 4) {
    random.ids[i] = 17;
  }
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const SampleSpec spec = draw_sample(
        random.problem(), {.num_tokens = 8, .num_experts = 30, .num_columns = 99}, seed);
    EXPECT_EQ(std::set(spec.tokens.begin(), spec.tokens.end()).size(), 8U);
    EXPECT_EQ(spec.tokens.front(), 0);
    EXPECT_EQ(spec.tokens.back(), 49);
    const std::set experts(spec.experts.begin(), spec.experts.end());
    EXPECT_EQ(experts.size(), 30U);
    EXPECT_EQ(experts.count(17), 1U);
    EXPECT_EQ(spec.columns.size(), 8U);  // all there are
  }
  const SampleSpec a = draw_sample(random.problem(), {}, 1);
  const SampleSpec b = draw_sample(random.problem(), {}, 1);
  const SampleSpec c = draw_sample(random.problem(), {}, 2);
  EXPECT_EQ(a.tokens, b.tokens);
  EXPECT_NE(a.tokens, c.tokens);
}

TEST(Sample, RefusesIndicesOutOfRange) {
  const RandomCase random({.seed = 1});
  EXPECT_TRUE(compute_sample(random.problem(), {.tokens = {6}}, 1).values.empty());
  EXPECT_TRUE(
      compute_sample(random.problem(), {.experts = {-1}, .columns = {0}}, 1).values.empty());
  EXPECT_TRUE(compute_sample(random.problem(), {.shared_columns = {24}}, 1).values.empty());
  EXPECT_FALSE(compute_sample(random.problem(), {.tokens = {5}}, 1).values.empty());
}

TEST(Threads, DoNotChangeBits) {
  for (const CaseSpec& spec : kSpecs) {
    const RandomCase random(spec);
    const Expected one = compute(random.problem(), 1);
    for (const int num_threads : {2, 3, 7}) {
      const Expected many = compute(random.problem(), num_threads);
      for (const Output output : kAllOutputs) {
        EXPECT_EQ(one[output].value, many[output].value) << output_name(output);
        EXPECT_EQ(one[output].bound, many[output].bound) << output_name(output);
      }
    }
  }
}

bool row_is_equal(const Expected& a, const Expected& b, Output output, std::int64_t width,
                  std::int64_t row) {
  for (std::int64_t i = row * width; i < (row + 1) * width; ++i) {
    const auto at = static_cast<std::size_t>(i);
    if (a[output].value[at] != b[output].value[at] || a[output].bound[at] != b[output].bound[at] ||
        !std::isfinite(a[output].value[at]) || !std::isfinite(a[output].bound[at])) {
      return false;
    }
  }
  return true;
}

TEST(Isolation, NanOrInfInOneTokenReachesNoOtherTokenAndNoOtherExpert) {
  for (const float poison :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    for (const CaseSpec& spec : kSpecs) {
      const RandomCase clean(spec);
      RandomCase dirty = clean;
      const std::int64_t token = spec.num_tokens / 2;
      dirty.x[static_cast<std::size_t>(token * spec.hidden + 3)] = to_bf16(poison);
      dirty.ids[static_cast<std::size_t>(token * spec.topk)] = 1;
      RandomCase routed = clean;
      routed.ids = dirty.ids;
      const Expected a = compute(dirty.problem(), 2);
      const Expected b = compute(routed.problem(), 2);
      for (std::int64_t t = 0; t < spec.num_tokens; ++t) {
        for (const Output output : {Output::kY, Output::kDx}) {
          EXPECT_EQ(row_is_equal(a, b, output, spec.hidden, t), t != token)
              << output_name(output) << " token " << t;
        }
        if (t != token) {
          EXPECT_TRUE(row_is_equal(a, b, Output::kDRouter, spec.topk, t)) << t;
        }
      }
      for (std::int64_t e = 0; e < spec.num_experts; ++e) {
        bool is_reached = false;
        for (std::int64_t slot = 0; slot < spec.topk; ++slot) {
          is_reached =
              is_reached || dirty.ids[static_cast<std::size_t>(token * spec.topk + slot)] == e;
        }
        EXPECT_EQ(row_is_equal(a, b, Output::kDGate, spec.intermediate * spec.hidden, e),
                  !is_reached)
            << "expert " << e;
      }
    }
  }
}

}  // namespace
}  // namespace mok::reference::testing
