// batch_test.cpp: the global batch is a function of seed, shape and total tokens, not of the ranks.
#include "cli/batch.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/bf16.hpp"

namespace mok::cli {
namespace {

Case small_case(std::vector<std::int64_t> tokens) {
  Case description;
  description.tokens = std::move(tokens);
  description.shape = {.max_tokens = 0,
                       .hidden = 48,
                       .intermediate = 24,
                       .shared_intermediate = 16,
                       .experts = 6,
                       .topk = 3,
                       .output_gate = true,
                       .swiglu_limit = {}};
  description.seed = 77;
  description.set_max_tokens();
  return description;
}

Batch batch_of(const Case& description) {
  const Result<Sources> sources = read_sources(description);
  EXPECT_TRUE(sources.has_value());
  Result<Batch> batch = build_batch(description, *sources);
  EXPECT_TRUE(batch.has_value());
  return std::move(*batch);
}

void expect_equal(const Batch& a, const Batch& b) {
  ASSERT_EQ(a.steps.size(), b.steps.size());
  for (std::size_t i = 0; i < a.steps.size(); ++i) {
    EXPECT_EQ(a.steps[i].x, b.steps[i].x);
    EXPECT_EQ(a.steps[i].dy, b.steps[i].dy);
    EXPECT_EQ(a.steps[i].ids, b.steps[i].ids);
    EXPECT_EQ(a.steps[i].weights, b.steps[i].weights);
  }
  ASSERT_EQ(a.layers.size(), b.layers.size());
  for (std::size_t i = 0; i < a.layers.size(); ++i) {
    EXPECT_EQ(a.layers[i].gate, b.layers[i].gate);
    EXPECT_EQ(a.layers[i].down, b.layers[i].down);
    EXPECT_EQ(a.layers[i].shared_output_gate, b.layers[i].shared_output_gate);
  }
}

TEST(Batch, IsTheSameForEverySplitOverRanks) {
  for (const RoutingSource routing :
       {RoutingSource::kRouter, RoutingSource::kUniform, RoutingSource::kZipf, RoutingSource::kHot,
        RoutingSource::kRandom}) {
    for (const XSource x : {XSource::kText, XSource::kRandom}) {
      Case one = small_case({24});
      Case three = small_case({5, 0, 19});
      for (Case* description : {&one, &three}) {
        description->routing = routing;
        description->x = x;
        description->layers = 2;
        description->microbatches = 2;
      }
      expect_equal(batch_of(one), batch_of(three));
    }
  }
}

TEST(Batch, StepsAndLayersDiffer) {
  Case description = small_case({24});
  description.x = XSource::kRandom;
  description.layers = 2;
  description.microbatches = 2;
  const Batch batch = batch_of(description);
  ASSERT_EQ(batch.steps.size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      EXPECT_NE(batch.steps[i].x, batch.steps[j].x);
      EXPECT_NE(batch.steps[i].dy, batch.steps[j].dy);
      EXPECT_NE(batch.steps[i].ids, batch.steps[j].ids);
    }
  }
  EXPECT_NE(batch.layers[0].gate, batch.layers[1].gate);
  EXPECT_NE(batch.layers[0].gate, batch.layers[0].up);
  EXPECT_NE(batch.layers[0].shared_gate, batch.layers[1].shared_gate);
}

TEST(Batch, EqualWordsGiveEqualStates) {
  Case description = small_case({6});
  Sources sources;
  sources.words = {"one", "two", "one"};
  const Result<Batch> batch = build_batch(description, sources);
  ASSERT_TRUE(batch.has_value());
  const std::vector<Bf16>& x = batch->steps[0].x;
  const auto row = [&x](std::int64_t token) {
    return std::vector<Bf16>(x.begin() + token * 48, x.begin() + (token + 1) * 48);
  };
  EXPECT_EQ(row(0), row(2));
  EXPECT_EQ(row(0), row(3)) << "the text is repeated";
  EXPECT_NE(row(0), row(1));
}

TEST(Batch, RecordingIsRepeatedOverSteps) {
  Case description = small_case({4});
  description.routing = RoutingSource::kFile;
  description.microbatches = 2;
  description.shape.topk = 1;
  Sources sources;
  sources.words = {"word"};
  sources.recording.emplace();
  sources.recording->num_experts = 6;
  sources.recording->topk = 1;
  sources.recording->num_tokens = 3;
  sources.recording->ids = {5, -1, 2};
  sources.recording->weights = {0.5F, 0.25F, 1.0F};
  const Result<Batch> batch = build_batch(description, sources);
  ASSERT_TRUE(batch.has_value());
  EXPECT_EQ(batch->steps[0].ids, (std::vector<std::int32_t>{5, -1, 2, 5}));
  EXPECT_EQ(batch->steps[1].ids, (std::vector<std::int32_t>{-1, 2, 5, -1}));
}

TEST(Batch, RandomRoutingHasEverything) {
  Case description = small_case({400});
  description.x = XSource::kRandom;
  description.routing = RoutingSource::kRandom;
  const Batch batch = batch_of(description);
  const std::vector<std::int32_t>& ids = batch.steps[0].ids;
  EXPECT_GT(std::count(ids.begin(), ids.end(), -1), 60);
  EXPECT_LT(std::count(ids.begin(), ids.end(), -1), 180);
  EXPECT_EQ(*std::max_element(ids.begin(), ids.end()), 5);
  int num_duplicates = 0;
  for (std::size_t t = 0; t < 400; ++t) {
    num_duplicates += ids[3 * t] >= 0 && ids[3 * t] == ids[3 * t + 1] ? 1 : 0;
  }
  EXPECT_GT(num_duplicates, 20);
  const std::vector<float>& weights = batch.steps[0].weights;
  EXPECT_TRUE(std::any_of(weights.begin(), weights.end(), [](float w) { return w < 0.0F; }));
}

TEST(Batch, WeightsKeepStatesNearOne) {
  const Batch batch = batch_of(small_case({4}));
  double sum = 0.0;
  for (const Bf16 weight : batch.layers[0].gate) {
    sum += static_cast<double>(to_float(weight)) * static_cast<double>(to_float(weight));
  }
  EXPECT_NEAR(sum / static_cast<double>(batch.layers[0].gate.size()) * 48.0, 1.0, 0.1);
}

}  // namespace
}  // namespace mok::cli
