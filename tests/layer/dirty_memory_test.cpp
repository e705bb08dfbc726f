// dirty_memory_test.cpp: nothing that lay in memory before a call shows in its results. (The rig fills
// workspace, contexts and outputs with NaN before every call of every test in this folder: B31, B51.)
#include <gtest/gtest.h>

#include <bit>

#include "support/layer_rig.hpp"

namespace mok::testing {
namespace {

LayerSpec small_spec() {
  LayerSpec spec;
  spec.tokens = {70, 41};
  spec.experts = 7;
  spec.topk = 2;
  spec.output_gate = true;
  return spec;
}

std::uint32_t bits_of(const GradArray& a, std::size_t i) {
  return a.kind == Grad::kBf16 ? a.bf16[i].bits : std::bit_cast<std::uint32_t>(a.f32[i]);
}

// Bits of every element of experts without rows, in all three gradients; the number of such experts.
int expect_empty_experts_hold(const LayerData& data, const LayerResult& result,
                              std::uint32_t bits) {
  int num_empty = 0;
  for (std::size_t expert = 0; expert < static_cast<std::size_t>(data.spec.experts); ++expert) {
    if (std::find(data.ids.begin(), data.ids.end(), static_cast<std::int32_t>(expert)) !=
        data.ids.end()) {
      continue;
    }
    ++num_empty;
    for (const GradArray* array : {&result.gate, &result.up, &result.down}) {
      for (std::size_t i = 0; i < data.expert_elements(); ++i) {
        if (bits_of(*array, expert * data.expert_elements() + i) != bits) {
          ADD_FAILURE() << "expert " << expert << " element " << i;
          return num_empty;
        }
      }
    }
  }
  return num_empty;
}

// B05, B07, B51: experts without rows first, in the middle and last; whole ranks of them; all of them.
TEST(DirtyMemory, B05ExpertsWithoutRowsGetExactZeros) {
  for (const Grad grad : {Grad::kBf16, Grad::kFp32}) {
    for (const Routes routes :
         {Routes::kOneExpert, Routes::kFewExperts, Routes::kAllOff, Routes::kOneRank}) {
      LayerSpec spec = small_spec();
      spec.grad = grad;
      spec.routes = routes;
      spec.hot = routes == Routes::kOneRank ? 1 : 3;
      const LayerData data(spec);
      const LayerResult result = run_layer(data);
      EXPECT_GE(expect_empty_experts_hold(data, result, 0), 3) << spec;
      EXPECT_EQ(first_excess(data.problem(), result), "") << spec;
    }
  }
}

// B07's method: all experts busy first, then few, on the same memory and the same gradients.
TEST(DirtyMemory, B07BusyThenEmptyExperts) {
  LayerSpec spec = small_spec();
  LayerRig rig(spec);
  const LayerResult busy = run_layer(rig, LayerData(spec));
  spec.routes = Routes::kFewExperts;
  spec.seed = 2;
  const LayerData data(spec);
  LayerResult result = busy;
  std::vector<Context> contexts = rig.contexts();
  ASSERT_EQ(failures(rig.forward(data, result, &contexts)), "");
  ASSERT_EQ(failures(rig.backward(data, result, contexts)), "");
  EXPECT_EQ(expect_empty_experts_hold(data, result, 0), 4);
  EXPECT_EQ(first_excess(data.problem(), result), "");
}

TEST(DirtyMemory, MainGradOfExpertsWithoutRowsIsUntouched) {
  for (const Routes routes : {Routes::kFewExperts, Routes::kAllOff}) {
    LayerSpec spec = small_spec();
    spec.routes = routes;
    spec.grad = Grad::kMainGrad;
    spec.shared_grad = Grad::kMainGrad;
    const LayerData data(spec);
    const LayerResult result = run_layer(data);
    EXPECT_GE(expect_empty_experts_hold(data, result, std::bit_cast<std::uint32_t>(1.0F)), 4);
  }
}

// One pass gives g in fp32; bf16 is g rounded once, main_grad is 1 + g added once.
void expect_kinds_agree(const GradArray& fp32, const GradArray& bf16, const GradArray& main) {
  ASSERT_EQ(fp32.size(), bf16.size());
  for (std::size_t i = 0; i < fp32.size(); ++i) {
    ASSERT_EQ(bf16.bf16[i].bits, to_bf16(fp32.f32[i]).bits) << i;
    ASSERT_EQ(main.f32[i], 1.0F + fp32.f32[i]) << i;
  }
}
TEST(DirtyMemory, GradientKindsDifferByOneRounding) {
  std::vector<LayerResult> results;
  for (const Grad grad : {Grad::kFp32, Grad::kBf16, Grad::kMainGrad}) {
    LayerSpec spec = small_spec();
    spec.routes = Routes::kFewExperts;
    spec.grad = grad;
    spec.shared_grad = grad;
    results.push_back(run_layer(LayerData(spec)));
  }
  expect_kinds_agree(results[0].gate, results[1].gate, results[2].gate);
  expect_kinds_agree(results[0].up, results[1].up, results[2].up);
  expect_kinds_agree(results[0].down, results[1].down, results[2].down);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    const auto check = [&](std::vector<GradArray> LayerResult::*array) {
      expect_kinds_agree((results[0].*array)[rank], (results[1].*array)[rank],
                         (results[2].*array)[rank]);
    };
    check(&LayerResult::shared_gate);
    check(&LayerResult::shared_up);
    check(&LayerResult::shared_down);
    check(&LayerResult::shared_output_gate);
  }
}

// B15, B17: four micro-batches with distinct data into accumulators that hold 1: the sum in fp32, in order.
TEST(DirtyMemory, B17FourMicroBatchesAddUp) {
  LayerSpec spec = small_spec();
  spec.grad = Grad::kMainGrad;
  spec.shared_grad = Grad::kMainGrad;
  LayerSpec plain = spec;
  plain.grad = Grad::kFp32;
  plain.shared_grad = Grad::kFp32;
  LayerData data(spec);
  LayerRig rig(spec);
  LayerResult sum(data);
  LayerResult expected(data);
  const auto add = [](GradArray& to, const GradArray& from) {
    for (std::size_t i = 0; i < to.size(); ++i) {
      to.f32[i] += from.f32[i];
    }
  };
  for (std::uint64_t batch = 1; batch <= 4; ++batch) {
    LayerSpec drawn = spec;
    drawn.seed = batch;
    drawn.routes = batch % 2 == 0 ? Routes::kFewExperts : Routes::kUniform;
    const LayerData micro(drawn);
    data.x = micro.x;
    data.dy = micro.dy;
    data.ids = micro.ids;
    data.weights = micro.weights;
    std::vector<Context> contexts = rig.contexts();
    ASSERT_EQ(failures(rig.forward(data, sum, &contexts)), "");
    ASSERT_EQ(failures(rig.backward(data, sum, contexts)), "");

    LayerData alone = data;
    alone.spec = plain;
    const LayerResult one = run_layer(alone);
    add(expected.gate, one.gate);
    add(expected.up, one.up);
    add(expected.down, one.down);
    for (std::size_t rank = 0; rank < 2; ++rank) {
      add(expected.shared_gate[rank], one.shared_gate[rank]);
      add(expected.shared_up[rank], one.shared_up[rank]);
      add(expected.shared_down[rank], one.shared_down[rank]);
      add(expected.shared_output_gate[rank], one.shared_output_gate[rank]);
    }
    expected.y = one.y;
    expected.dx = one.dx;
    expected.d_router = one.d_router;
  }
  EXPECT_EQ(first_difference(expected, sum, Shared::kCompare), "");
}

// B49: masked slots add nothing and get the exact gradient 0; tokens without any route give 0.
TEST(DirtyMemory, B49MaskedSlotsAreExactlyZero) {
  for (const Routes routes :
       {Routes::kSomeOff, Routes::kTokensOff, Routes::kRankOff, Routes::kAllOff}) {
    for (const Combine combine : {Combine::kScatter, Combine::kPush, Combine::kPull}) {
      LayerSpec spec = small_spec();
      spec.shared = 0;
      spec.output_gate = false;
      spec.routes = routes;
      spec.hot = 1;
      spec.options.combine = combine;
      spec.options.dx_combine = combine;
      const LayerData data(spec);
      const LayerResult result = run_layer(data);
      EXPECT_EQ(first_excess(data.problem(), result), "") << spec;
      const auto topk = static_cast<std::size_t>(spec.topk);
      const auto hidden = static_cast<std::size_t>(spec.hidden);
      for (std::size_t slot = 0; slot < data.ids.size(); ++slot) {
        if (data.ids[slot] < 0) {
          ASSERT_EQ(std::bit_cast<std::uint32_t>(result.d_router[slot]), 0U) << spec;
        }
      }
      for (std::size_t token = 0; token * topk < data.ids.size(); ++token) {
        if (std::all_of(&data.ids[token * topk], &data.ids[token * topk] + topk,
                        [](std::int32_t id) { return id < 0; })) {
          for (std::size_t h = 0; h < hidden; ++h) {
            ASSERT_EQ(result.y[token * hidden + h].bits, 0) << spec;
            ASSERT_EQ(result.dx[token * hidden + h].bits, 0) << spec;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace mok::testing
