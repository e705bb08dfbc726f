// negative_controls_test.cpp: the comparison with the reference can fail: small mistakes in the machine's
// input, of which the reference knows nothing, exceed the bounds.
#include <gtest/gtest.h>

#include <functional>
#include <utility>

#include "support/layer_rig.hpp"

namespace mok::testing {
namespace {

class NegativeControls : public ::testing::TestWithParam<std::string> {
 protected:
  // What the reference says of a machine that made the mistake.
  [[nodiscard]] static std::string excess_after(const std::function<void(LayerData&)>& mistake) {
    LayerSpec spec;
    spec.tokens = {100, 60};
    spec.experts = 5;
    spec.topk = 3;
    spec.grad = Grad::kFp32;
    spec.options.engine = GetParam();
    LayerData right(spec);
    for (std::size_t i = 0; i < right.ids.size(); ++i) {  // distinct experts, weights of one size
      right.ids[i] = static_cast<std::int32_t>((i % 3 + i / 3) % 4);
      right.weights[i] = 0.3F + 0.01F * static_cast<float>(i % 7);
    }
    right.ids[151] = 4;  // the only row of its expert
    LayerData wrong = right;
    mistake(wrong);
    return first_excess(right.problem(), run_layer(wrong));
  }
};
INSTANTIATE_TEST_SUITE_P(Engines, NegativeControls, ::testing::ValuesIn(engines()),
                         [](const auto& test) { return test.param; });

TEST_P(NegativeControls, NoMistake) {
  EXPECT_EQ(excess_after([](LayerData&) {}), "");
}
TEST_P(NegativeControls, DroppedSlot) {
  EXPECT_NE(excess_after([](LayerData& data) { data.ids[151] = -1; }), "");
}
TEST_P(NegativeControls, TwoExpertsOfATokenSwapped) {
  EXPECT_NE(excess_after([](LayerData& data) { std::swap(data.ids[150], data.ids[151]); }), "");
}
// The first 128 rows of an expert counted twice.
TEST_P(NegativeControls, BlockDoubled) {
  EXPECT_NE(excess_after([](LayerData& data) {
              int rows = 0;
              for (std::size_t i = 0; i < data.ids.size() && rows < 128; ++i) {
                if (data.ids[i] == 2) {
                  data.weights[i] *= 2.0F;
                  ++rows;
                }
              }
            }),
            "");
}
TEST_P(NegativeControls, OneWeightOnePercentOff) {
  EXPECT_NE(excess_after([](LayerData& data) { data.weights[151] *= 1.01F; }), "");
}
TEST_P(NegativeControls, OneRowOfXTwice) {
  EXPECT_NE(excess_after([](LayerData& data) {
              const auto hidden = static_cast<std::ptrdiff_t>(data.spec.hidden);
              std::copy_n(data.x.begin(), hidden, data.x.begin() + hidden);
            }),
            "");
}

// Slots in reverse order: within the bound, with other bits. Two large slots that cancel make the fp32
// rounding of the sum's order visible through the rounding to bf16.
TEST_P(NegativeControls, SlotOrderChangesBits) {
  LayerSpec spec;
  spec.tokens = {100, 60};
  spec.experts = 6;
  spec.topk = 3;
  spec.options.engine = GetParam();
  LayerData data(spec);
  for (std::size_t slot = 0; slot < data.ids.size(); ++slot) {
    const float weights[] = {4096.0F, -4096.0F, 0.5F};
    const std::size_t token = slot / 3;
    data.ids[slot] = static_cast<std::int32_t>((token + slot % 3 / 2) % 6);
    data.weights[slot] = weights[slot % 3];
  }
  LayerData reversed = data;
  for (std::size_t token = 0; token < data.ids.size(); token += 3) {
    std::swap(reversed.ids[token], reversed.ids[token + 2]);
    std::swap(reversed.weights[token], reversed.weights[token + 2]);
  }
  const LayerResult result = run_layer(reversed);
  EXPECT_EQ(first_excess(reversed.problem(), result), "");
  EXPECT_TRUE(run_layer(data).y != result.y);
}

// The comparison of bits sees one bit.
TEST(BitComparison, SeesOneBit) {
  LayerSpec spec;
  const LayerData data(spec);
  const LayerResult result = run_layer(data);
  LayerResult other = result;
  other.dx[17].bits ^= 1U;
  EXPECT_EQ(first_difference(result, other, Shared::kSkip), "dx at element 17");
  other = result;
  other.shared_up[0].f32[3] += 1e-3F;
  EXPECT_EQ(first_difference(result, other, Shared::kSkip), "");
  EXPECT_EQ(first_difference(result, other, Shared::kCompare), "d_shared_up at element 3");
}

}  // namespace
}  // namespace mok::testing
