// layouts_test.cpp: weights and gradients in any layout that the interface allows, and 64-bit ids, give
// the bits of the plain layout; nothing between rows is written.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "support/layer_rig.hpp"

namespace mok::testing {
namespace {

LayerSpec one_rank() {
  LayerSpec spec;
  spec.tokens = {50};
  spec.experts = 4;
  spec.output_gate = true;
  spec.grad = Grad::kFp32;
  spec.routes = Routes::kFewExperts;
  return spec;
}

using Change = std::function<void(ForwardArgs&, BackwardArgs&)>;
void run_changed(const LayerData& data, LayerResult& result, const Change& change) {
  LayerRig rig(data.spec);
  std::vector<Context> contexts = rig.contexts();
  ForwardArgs f = forward_args(data, result, 0, contexts.data());
  BackwardArgs b = backward_args(data, result, 0, contexts.data());
  change(f, b);
  rig.poison();
  LayerRig::poison(contexts);
  ASSERT_TRUE(mok::forward(rig.workspace(0), f));
  rig.poison();
  ASSERT_TRUE(mok::backward(rig.workspace(0), b));
}

// A matrix per expert, somewhere in a larger array full of `gap`.
template <class T>
struct Padded {
  Padded(std::size_t experts, std::size_t num_rows, std::size_t num_cols, T gap)
      : rows(num_rows),
        cols(num_cols),
        row_stride(num_cols + 5),
        expert_stride(num_rows * row_stride + 11),
        values(3 + experts * expert_stride, gap) {}
  [[nodiscard]] std::size_t at(std::size_t i) const {  // place of element i of the plain array
    return 3 + i / (rows * cols) * expert_stride + i / cols % rows * row_stride + i % cols;
  }
  std::size_t rows, cols, row_stride, expert_stride;
  std::vector<T> values;
};
Padded<Bf16> spread(const std::vector<Bf16>& plain, std::size_t experts, std::size_t cols) {
  Padded<Bf16> padded(experts, plain.size() / experts / cols, cols, Bf16{0xffff});
  for (std::size_t i = 0; i < plain.size(); ++i) {
    padded.values[padded.at(i)] = plain[i];
  }
  return padded;
}
ExpertMatrix matrix_of(const Padded<Bf16>& p) {
  return {p.values.data() + 3, static_cast<std::int64_t>(p.expert_stride),
          static_cast<std::int64_t>(p.row_stride), nullptr};
}

TEST(Layouts, StridedWeights) {
  const LayerData data(one_rank());
  const auto hidden = static_cast<std::size_t>(data.spec.hidden);
  const auto width = static_cast<std::size_t>(data.spec.intermediate);
  const auto shared = static_cast<std::size_t>(data.spec.shared);
  const auto gate = spread(data.gate, 4, hidden);
  const auto up = spread(data.up, 4, hidden);
  const auto down = spread(data.down, 4, width);
  const auto shared_gate = spread(data.shared_gate, 1, hidden);
  const auto shared_up = spread(data.shared_up, 1, hidden);
  const auto shared_down = spread(data.shared_down, 1, shared);
  LayerResult result(data);
  run_changed(data, result, [&](ForwardArgs& f, BackwardArgs& b) {
    f.weights.gate = matrix_of(gate);
    f.weights.up = matrix_of(up);
    f.weights.down = matrix_of(down);
    f.weights.shared_gate = matrix_of(shared_gate);
    f.weights.shared_up = matrix_of(shared_up);
    f.weights.shared_down = matrix_of(shared_down);
    b.weights = f.weights;
  });
  EXPECT_EQ(first_difference(run_layer(data), result, Shared::kCompare), "");
}

// One [E, 2I, H] tensor, weights and gradients alike.
TEST(Layouts, GateAndUpAsHalvesOfOneTensor) {
  const LayerData data(one_rank());
  const std::size_t half = data.expert_elements();
  std::vector<Bf16> both(2 * data.gate.size());
  std::vector<float> grads(both.size(), std::nanf(""));
  for (std::size_t i = 0; i < data.gate.size(); ++i) {
    both[i / half * 2 * half + i % half] = data.gate[i];
    both[i / half * 2 * half + half + i % half] = data.up[i];
  }
  const auto stride = static_cast<std::int64_t>(2 * half);
  const LayerResult expected = run_layer(data);
  LayerResult result(data);
  run_changed(data, result, [&](ForwardArgs& f, BackwardArgs& b) {
    f.weights.gate = {both.data(), stride, data.spec.hidden, nullptr};
    f.weights.up = {both.data() + half, stride, data.spec.hidden, nullptr};
    b.weights = f.weights;
    b.grads.gate = {grads.data(), stride, data.spec.hidden, nullptr};
    b.grads.up = {grads.data() + half, stride, data.spec.hidden, nullptr};
  });
  for (std::size_t i = 0; i < data.gate.size(); ++i) {
    result.gate.f32[i] = grads[i / half * 2 * half + i % half];
    result.up.f32[i] = grads[i / half * 2 * half + half + i % half];
  }
  EXPECT_EQ(first_difference(expected, result, Shared::kCompare), "");
}

// Tables of pointers, in reverse order of memory; the shared expert's too.
TEST(Layouts, TablesOfPointers) {
  const LayerData data(one_rank());
  const std::size_t each = data.expert_elements();
  const auto reversed = [each](const std::vector<Bf16>& plain) {
    std::vector<Bf16> turned;
    for (std::size_t expert = 4; expert-- > 0;) {
      turned.insert(turned.end(), plain.begin() + static_cast<std::ptrdiff_t>(expert * each),
                    plain.begin() + static_cast<std::ptrdiff_t>((expert + 1) * each));
    }
    return turned;
  };
  const std::vector<Bf16> weights[] = {reversed(data.gate), reversed(data.up), reversed(data.down)};
  const Bf16* tables[3][4];
  for (std::size_t w = 0; w < 3; ++w) {
    for (std::size_t expert = 0; expert < 4; ++expert) {
      tables[w][expert] = weights[w].data() + (3 - expert) * each;
    }
  }
  const Bf16* shared[] = {data.shared_gate.data(), data.shared_up.data(), data.shared_down.data()};
  const LayerResult expected = run_layer(data);
  LayerResult result(data);
  void* grads[3][4];
  void* shared_grads[] = {result.shared_gate[0].at(0), result.shared_up[0].at(0),
                          result.shared_down[0].at(0)};
  for (std::size_t expert = 0; expert < 4; ++expert) {
    grads[0][expert] = result.gate.at(expert * each);
    grads[1][expert] = result.up.at(expert * each);
    grads[2][expert] = result.down.at(expert * each);
  }
  run_changed(data, result, [&](ForwardArgs& f, BackwardArgs& b) {
    const std::int64_t h = data.spec.hidden;
    f.weights.gate = {nullptr, 0, h, tables[0]};
    f.weights.up = {nullptr, 0, h, tables[1]};
    f.weights.down = {nullptr, 0, data.spec.intermediate, tables[2]};
    f.weights.shared_gate = {nullptr, 0, h, &shared[0]};
    f.weights.shared_up = {nullptr, 0, h, &shared[1]};
    f.weights.shared_down = {nullptr, 0, data.spec.shared, &shared[2]};
    b.weights = f.weights;
    b.grads.gate = {nullptr, 0, h, grads[0]};
    b.grads.up = {nullptr, 0, h, grads[1]};
    b.grads.down = {nullptr, 0, data.spec.intermediate, grads[2]};
    b.grads.shared_gate = {nullptr, 0, h, &shared_grads[0]};
    b.grads.shared_up = {nullptr, 0, h, &shared_grads[1]};
    b.grads.shared_down = {nullptr, 0, data.spec.shared, &shared_grads[2]};
  });
  EXPECT_EQ(first_difference(expected, result, Shared::kCompare), "");
}

// Every kind of gradient with gaps between rows and experts: equal bits, and the gaps keep theirs.
TEST(Layouts, StridedGradientsLeaveGapsAlone) {
  for (const Grad grad : {Grad::kBf16, Grad::kFp32, Grad::kMainGrad}) {
    LayerSpec spec = one_rank();
    spec.grad = spec.shared_grad = grad;
    const LayerData data(spec);
    const LayerResult expected = run_layer(data);
    const auto hidden = static_cast<std::size_t>(spec.hidden);
    const auto width = static_cast<std::size_t>(spec.intermediate);
    Padded<float> gate(4, width, hidden, 1.0F);
    Padded<float> down(4, hidden, width, 1.0F);
    Padded<Bf16> gate16(4, width, hidden, Bf16{0xffff});
    Padded<Bf16> down16(4, hidden, width, Bf16{0xffff});
    const bool bf16 = grad == Grad::kBf16;
    LayerResult result(data);
    run_changed(data, result, [&](ForwardArgs&, BackwardArgs& b) {
      const auto matrix = [&](auto& narrow, auto& wide) {
        return GradMatrix{
            bf16 ? static_cast<void*>(narrow.values.data() + 3) : wide.values.data() + 3,
            static_cast<std::int64_t>(wide.expert_stride),
            static_cast<std::int64_t>(wide.row_stride), nullptr};
      };
      b.grads.gate = matrix(gate16, gate);
      b.grads.down = matrix(down16, down);
    });
    const auto expect_spread = [&](const GradArray& plain, const auto& narrow, const auto& wide) {
      std::vector<bool> is_gap(wide.values.size(), true);
      for (std::size_t i = 0; i < plain.size(); ++i) {
        is_gap[wide.at(i)] = false;
        ASSERT_EQ(plain.value(i),
                  bf16 ? to_float(narrow.values[wide.at(i)]) : wide.values[wide.at(i)])
            << i;
      }
      for (std::size_t i = 0; i < is_gap.size(); ++i) {
        ASSERT_TRUE(!is_gap[i] || (bf16 ? narrow.values[i].bits == 0xffff : wide.values[i] == 1.0F))
            << i;
      }
    };
    expect_spread(expected.gate, gate16, gate);
    expect_spread(expected.down, down16, down);
  }
}

TEST(Layouts, WideIds) {
  LayerSpec spec = one_rank();
  spec.routes = Routes::kSomeOff;
  const LayerData data(spec);
  const std::vector<std::int64_t> wide(data.ids.begin(), data.ids.end());
  LayerResult result(data);
  run_changed(data, result, [&](ForwardArgs& f, BackwardArgs&) {
    f.routing.ids = nullptr;
    f.routing.ids64 = wide.data();
  });
  EXPECT_EQ(first_difference(run_layer(data), result, Shared::kCompare), "");
}

}  // namespace
}  // namespace mok::testing
