// against_reference_test.cpp: forward and backward of random layers lie within the derived bounds.
#include <gtest/gtest.h>

#include <algorithm>

#include "support/layer_rig.hpp"
#include "support/random.hpp"

namespace mok::testing {
namespace {

void expect_within_bound(const LayerSpec& spec) {
  const LayerData data(spec);
  EXPECT_EQ(first_excess(data.problem(), run_layer(data)), "") << spec;
}

template <class T>
T one_of(Random& random, std::initializer_list<T> values) {
  return values.begin()[random.below(static_cast<std::uint32_t>(values.size()))];
}
std::int64_t multiple_of_8(Random& random, std::uint32_t most) {
  return 8 * std::int64_t{random.between(1, most)};
}

void draw_gradients(Random& random, LayerSpec& spec) {
  spec.grad = one_of(random, {Grad::kBf16, Grad::kFp32, Grad::kMainGrad});
  spec.shared_grad = spec.grad == Grad::kMainGrad ? Grad::kMainGrad : Grad::kFp32;
}

void draw_options(Random& random, Options& o) {
  const std::vector<std::string> names = engines();
  o.engine = names[random.below(static_cast<std::uint32_t>(names.size()))];
  o.dispatch = one_of(random, {Dispatch::kPull, Dispatch::kPush});
  o.dy_dispatch = one_of(random, {Dispatch::kPull, Dispatch::kPush});
  o.combine = one_of(random, {Combine::kScatter, Combine::kPush, Combine::kPull});
  o.dx_combine = one_of(random, {Combine::kScatter, Combine::kPush, Combine::kPull});
  o.ring_rows = one_of<std::int64_t>(random, {0, 384, 448, 1024});
  o.saved_rows = one_of<std::int64_t>(random, {-1, 0, 64, 192, 4096});
  o.save = one_of(random, {Save::kAll, Save::kAll, Save::kNone});
  o.workers = static_cast<int>(random.between(1, 3));
}

// E below R, tokens without routes, ranks without tokens, every direction, ring and saved_rows.
LayerSpec draw_spec(std::uint64_t seed) {
  Random random(seed);
  LayerSpec spec;
  spec.seed = seed;
  spec.tokens.assign(one_of<std::size_t>(random, {1, 2, 3, 4, 8}), 0);
  for (std::int64_t& count : spec.tokens) {
    count = one_of<std::int64_t>(random, {0, 1, random.between(2, 60), random.between(60, 150)});
  }
  spec.max_tokens = std::max<std::int64_t>(
      1, *std::max_element(spec.tokens.begin(), spec.tokens.end()) + random.below(3));
  spec.hidden = multiple_of_8(random, 40);
  spec.intermediate = multiple_of_8(random, 40);
  spec.shared = random.one_in(3) ? 0 : multiple_of_8(random, 20);
  spec.experts = random.between(1, 9);
  spec.topk =
      random.between(1, static_cast<std::uint32_t>(std::min<std::int64_t>(spec.experts, 4)));
  spec.output_gate = spec.shared > 0 && random.one_in(2);
  spec.limit = random.one_in(2) ? 0.7F : 0.0F;
  spec.routes = static_cast<Routes>(random.below(static_cast<std::uint32_t>(Routes::kSkewed) + 1));
  spec.hot = random.below(
      static_cast<std::uint32_t>(std::min<std::int64_t>(spec.experts, spec.num_ranks())));
  draw_options(random, spec.options);
  draw_gradients(random, spec);
  return spec;
}

class RandomLayers : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(RandomLayers, AreWithinBound) {
  for (std::uint64_t i = 0; i < (kSanitized ? 2 : 6); ++i) {
    expect_within_bound(draw_spec(1000 * test_seed() + 6 * GetParam() + i));
  }
}
INSTANTIATE_TEST_SUITE_P(Seeds, RandomLayers, ::testing::Range<std::uint64_t>(0, 8));

// B29: any number of experts.
TEST(AgainstReference, B29AnyNumberOfExperts) {
  for (const std::int64_t experts : {1, 2, 7, 60, 128, 160, 256, 384, 512, 1024}) {
    LayerSpec spec;
    spec.tokens = {70, 31, 90};
    spec.hidden = 16;
    spec.intermediate = 8;
    spec.experts = experts;
    spec.topk = std::min<std::int64_t>(experts, 4);
    spec.seed = static_cast<std::uint64_t>(experts);
    expect_within_bound(spec);
  }
}

// B45: any hidden and intermediate that are multiples of 8, and a shared expert of its own width.
TEST(AgainstReference, B45AnyMultipleOf8) {
  std::uint64_t seed = 1;
  for (const std::int64_t hidden : {8, 72, 264, 520}) {
    for (const std::int64_t intermediate : {8, 136, 264}) {
      LayerSpec spec;
      spec.tokens = {5, 9};
      spec.hidden = hidden;
      spec.intermediate = intermediate;
      spec.shared = hidden == 72 ? 264 : 8;
      spec.seed = seed++;
      expect_within_bound(spec);
    }
  }
}

// B01: all slots of all tokens at one rank, each rank in turn, through the smallest ring.
TEST(AgainstReference, B01AllTokensToOneRank) {
  for (std::int64_t hot = 0; hot < 4; ++hot) {
    LayerSpec spec;
    spec.tokens = {120, 64, 0, 100};
    spec.experts = 8;
    spec.topk = 2;
    spec.routes = Routes::kOneRank;
    spec.hot = hot;
    spec.options.ring_rows = smallest_ring_rows();
    spec.options.saved_rows = 128;
    spec.options.combine = hot % 2 == 0 ? Combine::kScatter : Combine::kPull;
    spec.options.dispatch = hot < 2 ? Dispatch::kPull : Dispatch::kPush;
    spec.options.workers = 1 + static_cast<int>(hot % 2);
    expect_within_bound(spec);
  }
}

// B13: one expert twice in a token counts twice.
TEST(AgainstReference, B13RepeatedExperts) {
  LayerSpec spec;
  spec.tokens = {20, 13};
  spec.experts = 8;
  spec.topk = 4;
  spec.routes = Routes::kRepeats;
  spec.hot = 3;
  const LayerData data(spec);
  ASSERT_EQ(std::vector(data.ids.begin(), data.ids.begin() + 4), (std::vector{3, 3, 5, 7}));
  expect_within_bound(spec);
}

// B47: an expert's rows need not be a multiple of anything.
TEST(AgainstReference, B47GroupsOf44Rows) {
  LayerSpec spec;
  spec.tokens = {44, 88};
  spec.experts = 6;
  spec.topk = 1;
  LayerData data(spec);
  for (std::size_t token = 0; token < data.ids.size(); ++token) {
    data.ids[token] = static_cast<std::int32_t>(token % 3 * 2);
  }
  EXPECT_EQ(first_excess(data.problem(), run_layer(data)), "");
}

// B27: token counts around block and tile borders, with every number of workers.
TEST(AgainstReference, B27TokensAroundBlockBorders) {
  for (const std::int64_t tokens : {1, 63, 64, 65, 127, 128, 129, 255}) {
    for (const int workers : {1, 2, 3}) {
      LayerSpec spec;
      spec.tokens = {tokens, tokens};
      spec.experts = 2;
      spec.topk = 1;
      spec.hidden = 16;
      spec.intermediate = 8;
      spec.routes = workers == 2 ? Routes::kOneExpert : Routes::kUniform;
      spec.options.workers = workers;
      spec.seed = static_cast<std::uint64_t>(tokens);
      expect_within_bound(spec);
    }
  }
}

// B39: the error relative to the bound does not grow with k.
TEST(AgainstReference, B39ErrorDoesNotGrowWithTopk) {
  for (const std::int64_t topk : {1, 2, 3, 5, 8, 12, 16, 24, 32}) {
    LayerSpec spec;
    spec.tokens = {20, 20};
    spec.experts = 32;
    spec.topk = topk;
    const LayerData data(spec);
    const reference::Problem problem = data.problem();
    expect_within_bound(spec);
    // The sum over slots is in fp32: the largest error of y, in units of y's own last place, stays
    // small.
    const LayerResult result = run_layer(data);
    const reference::Expected expected = reference::compute(problem, 1);
    const auto& y = expected[reference::Output::kY];
    double most = 0.0;
    double scale = 0.0;
    for (std::size_t i = 0; i < result.y.size(); ++i) {
      most = std::max(most, std::abs(static_cast<double>(to_float(result.y[i])) - y.value[i]));
      scale = std::max(scale, std::abs(y.value[i]));
    }
    EXPECT_LT(most / scale, 0.02) << "topk " << topk;
  }
}

// B21: the router's gradient with one slot and weights that are not normalised, negative or 0.
TEST(AgainstReference, B21RouterGradientOfAnyWeight) {
  LayerSpec spec;
  spec.tokens = {24, 7};
  spec.topk = 1;
  LayerData data(spec);
  const float weights[] = {1.0F, 0.0F, -0.0F, -2.5F, 40.0F, 1e-20F};
  for (std::size_t i = 0; i < data.weights.size(); ++i) {
    data.weights[i] = weights[i % 6];
  }
  const LayerResult result = run_layer(data);
  EXPECT_EQ(first_excess(data.problem(), result), "");
  for (std::size_t i = 0; i < result.d_router.size(); ++i) {
    EXPECT_NE(result.d_router[i], 0.0F) << "the gradient does not depend on the weight, slot " << i;
  }
}

}  // namespace
}  // namespace mok::testing
