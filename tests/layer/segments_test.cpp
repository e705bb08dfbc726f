// segments_test.cpp: weight gradients are sums of fixed segments of an expert's rows, each from zero, added
// in fp32 in order, however phases and rings interrupt them.
#include <gtest/gtest.h>

#include "support/layer_rig.hpp"

namespace mok::testing {
namespace {

// All tokens to one expert, in one slot: row order is token order.
LayerSpec one_expert(std::int64_t tokens, std::uint32_t segment_rows) {
  LayerSpec spec;
  spec.tokens = {tokens};
  spec.hidden = 16;
  spec.intermediate = 8;
  spec.shared = 0;
  spec.experts = 1;
  spec.topk = 1;
  spec.grad = Grad::kFp32;
  spec.routes = Routes::kOneExpert;
  spec.geo.segment_rows = segment_rows;
  return spec;
}

// Tokens [first, first + count) as a batch of their own.
LayerData slice(const LayerData& whole, std::int64_t first, std::int64_t count) {
  LayerData part = whole;
  part.spec.tokens = {count};
  const auto cut = [&](auto& values, std::int64_t each) {
    values = {values.begin() + first * each, values.begin() + (first + count) * each};
  };
  cut(part.x, whole.spec.hidden);
  cut(part.dy, whole.spec.hidden);
  cut(part.ids, 1);
  cut(part.weights, 1);
  return part;
}

// The rule, from runs that have one segment each.
LayerResult sum_of_segments(const LayerData& data, std::int64_t segment_rows) {
  const std::int64_t tokens = data.spec.tokens[0];
  LayerResult sum(data);
  for (std::int64_t first = 0; first < tokens; first += segment_rows) {
    const LayerResult one = run_layer(slice(data, first, std::min(segment_rows, tokens - first)));
    for (const auto grad : {&LayerResult::gate, &LayerResult::up, &LayerResult::down}) {
      for (std::size_t i = 0; i < sum.gate.size(); ++i) {
        float& to = (sum.*grad).f32[i];
        to = first == 0 ? (one.*grad).f32[i] : to + (one.*grad).f32[i];
      }
    }
  }
  return sum;
}

bool equal_gradients(const LayerResult& a, const LayerResult& b) {
  return a.gate.f32 == b.gate.f32 && a.up.f32 == b.up.f32 && a.down.f32 == b.down.f32;
}

class Segments : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Engines, Segments, ::testing::ValuesIn(engines()),
                         [](const auto& test) { return test.param; });

// Segments that end inside blocks, at their borders, with the sum, and one row before it; rings that
// interrupt after every 128 rows, contexts that end in the middle.
TEST_P(Segments, FollowTheRule) {
  const std::int64_t tokens = 400;
  for (const std::uint32_t segment_rows : {8U, 96U, 128U, 200U, 398U, 400U, 8192U}) {
    LayerSpec spec = one_expert(tokens, segment_rows);
    spec.options.engine = GetParam();
    const LayerResult expected = sum_of_segments(LayerData(spec), segment_rows);
    for (const std::int64_t ring : {std::int64_t{384}, std::int64_t{768}, std::int64_t{4096}}) {
      for (const std::int64_t saved : {0, 192, 4096}) {
        spec.options.ring_rows = ring;
        spec.options.saved_rows = saved;
        spec.options.workers = ring == 384 ? 2 : 1;
        EXPECT_TRUE(equal_gradients(expected, run_layer(LayerData(spec))))
            << "segment " << segment_rows << ": " << spec;
      }
    }
  }
}

// The rule shows in the bits: other segments, other sums.
TEST_P(Segments, OtherSegmentsGiveOtherBits) {
  LayerSpec spec = one_expert(400, 8);
  spec.options.engine = GetParam();
  const LayerResult small = run_layer(LayerData(spec));
  spec.geo.segment_rows = 8192;
  EXPECT_FALSE(equal_gradients(small, run_layer(LayerData(spec))));
}

// The documented 8192 rows of the usual geometry.
TEST_P(Segments, DefaultIs8192Rows) {
  LayerSpec spec = one_expert(8192 + 300, Geometry{}.segment_rows);
  spec.hidden = 8;
  spec.options.engine = GetParam();
  const LayerData data(spec);
  const LayerResult expected = sum_of_segments(data, 8192);
  EXPECT_TRUE(equal_gradients(expected, run_layer(data)));
  LayerSpec small_ring = spec;
  small_ring.options.ring_rows = smallest_ring_rows();
  small_ring.options.saved_rows = 1024;
  EXPECT_TRUE(equal_gradients(expected, run_layer(LayerData(small_ring))));
}

// Several experts larger than a cell, one after the other through one spill memory.
TEST_P(Segments, SplitExpertsShareTheSpill) {
  LayerSpec spec;
  spec.tokens = {260, 260};
  spec.experts = 3;
  spec.topk = 2;
  spec.geo.segment_rows = 104;
  spec.options.engine = GetParam();
  spec.options.ring_rows = 4096;
  const LayerResult expected = run_layer(LayerData(spec));
  for (const int workers : {1, 3}) {
    spec.options.ring_rows = smallest_ring_rows();
    spec.options.workers = workers;
    EXPECT_EQ(first_difference(expected, run_layer(LayerData(spec)), Shared::kCompare), "");
  }
}

}  // namespace
}  // namespace mok::testing
