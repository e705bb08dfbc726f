// emulation.hpp: a naive implementation in fp32 with bf16 roundings, for testing the bounds.
//
// Plain loops that follow the named rounding points one by one. It shares nothing with the
// reference but Problem and Output.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <vector>

#include "core/bf16.hpp"
#include "reference/reference.hpp"

namespace mok::reference::testing {

// An fp32 sum of K products, added up in one of three ways.
class EmulatedSum {
 public:
  explicit EmulatedSum(AccumulationModel model) : model_(model) {}
  using Factor = std::function<float(std::int64_t)>;

  [[nodiscard]] float operator()(std::int64_t count, const Factor& a, const Factor& b,
                                 float start = 0.0F) const {
    switch (model_) {
      case AccumulationModel::kRoundToNearest: {
        for (std::int64_t k = 0; k < count; ++k) {
          start = start + a(k) * b(k);
        }
        return start;
      }
      case AccumulationModel::kPairDot: {
        for (std::int64_t k = 0; k < count; k += 2) {
          const float odd = k + 1 < count ? flushed(flushed(a(k + 1)) * flushed(b(k + 1))) : 0.0F;
          start = flushed(start + flushed(flushed(flushed(a(k)) * flushed(b(k))) + odd));
        }
        return start;
      }
      case AccumulationModel::kTensorCore: {
        for (std::int64_t k = 0; k < count; k += 16) {
          start = tensor_step(std::min<std::int64_t>(16, count - k), k, a, b, start);
        }
        return start;
      }
    }
    return 0.0F;
  }

 private:
  static float flushed(float v) { return std::abs(v) < 0x1p-126F ? 0.0F : v; }

  // All terms are cut (toward zero) to a common grid three bits finer than fp32's at the largest
  // term, added exactly, and the sum is cut to fp32.
  static float tensor_step(std::int64_t count, std::int64_t first, const Factor& a, const Factor& b,
                           float start) {
    double largest = std::abs(static_cast<double>(start));
    for (std::int64_t k = 0; k < count; ++k) {
      largest = std::max(largest, std::abs(static_cast<double>(a(first + k)) * b(first + k)));
    }
    if (!(largest > 0.0) || !std::isfinite(largest)) {
      return start;
    }
    const double grid = std::exp2(std::floor(std::log2(largest)) - 26.0);
    double sum = std::trunc(start / grid);
    for (std::int64_t k = 0; k < count; ++k) {
      sum += std::trunc(static_cast<double>(a(first + k)) * b(first + k) / grid);
    }
    sum *= grid;
    const auto nearest = static_cast<float>(sum);
    return std::abs(static_cast<double>(nearest)) > std::abs(sum) ? std::nextafterf(nearest, 0.0F)
                                                                  : nearest;
  }

  AccumulationModel model_;
};

// Results as the implementation would return them; bf16 arrays as their float values.
using Emulated = std::array<std::vector<float>, kNumOutputs>;

class Emulation {
 public:
  explicit Emulation(const Problem& problem) : p_(problem), sum_(problem.accumulation) {}

  [[nodiscard]] Emulated run() {
    prepare();
    for (std::int64_t t = 0; t < p_.num_tokens; ++t) {
      float scale = 1.0F;
      std::vector<float> y(to_size(p_.hidden), 0.0F);
      std::vector<float> dx(to_size(p_.hidden), 0.0F);
      if (p_.shared_intermediate > 0) {
        shared_token(t, scale, y, dx);
      }
      for (std::int64_t slot = 0; slot < p_.topk; ++slot) {
        routed_slot(t, slot, y, dx);
      }
      for (std::int64_t h = 0; h < p_.hidden; ++h) {
        at(Output::kY, t * p_.hidden + h) = round_bf16(y[to_size(h)]);
        at(Output::kDx, t * p_.hidden + h) = round_bf16(dx[to_size(h)]);
      }
    }
    finish();
    return out_;
  }

 private:
  struct Weights {
    const Bf16* gate;
    const Bf16* up;
    const Bf16* down;
    std::int64_t width;
    Output d_gate, d_up, d_down;
    std::int64_t first;  // flat index of the expert's first element
  };
  struct RowResult {
    std::vector<float> y;   // bf16 values
    std::vector<float> dx;  // bf16 values
    float d_scale = 0.0F;
  };

  static std::size_t to_size(std::int64_t n) { return static_cast<std::size_t>(n); }
  static float sigmoid(float z) { return 1.0F / (1.0F + std::exp(-z)); }
  float& at(Output output, std::int64_t i) {
    return out_[static_cast<std::size_t>(output)][to_size(i)];
  }

  void prepare() {
    const std::int64_t routed = p_.num_experts * p_.intermediate * p_.hidden;
    const std::int64_t shared = p_.shared_intermediate * p_.hidden;
    const std::int64_t tokens = p_.num_tokens * p_.hidden;
    const std::int64_t counts[kNumOutputs] = {tokens,
                                              tokens,
                                              p_.num_tokens * p_.topk,
                                              routed,
                                              routed,
                                              routed,
                                              shared,
                                              shared,
                                              shared,
                                              p_.shared_output_gate ? p_.hidden : 0};
    for (std::size_t i = 0; i < kNumOutputs; ++i) {
      out_[i].assign(to_size(counts[i]), 0.0F);
    }
  }

  // Forward and backward of one row; adds to the weight gradients (a row is one more product in
  // each of their sums: a pair or a k16 step of rows differs from this in the order only).
  RowResult row(const Weights& w, std::int64_t t, const std::function<float(float)>& scale_of) {
    const Bf16* x = p_.x + t * p_.hidden;
    const Bf16* dy = p_.dy + t * p_.hidden;
    const auto width = to_size(w.width);
    std::vector<float> gate(width), up(width), hidden(width), dh(width);
    const auto limit = p_.swiglu_limit;
    RowResult result;
    for (std::int64_t i = 0; i < w.width; ++i) {
      const auto x_of = [&](std::int64_t h) { return to_float(x[h]); };
      const float g = round_bf16(sum_(
          p_.hidden, x_of, [&](std::int64_t h) { return to_float(w.gate[i * p_.hidden + h]); }));
      const float u = round_bf16(
          sum_(p_.hidden, x_of, [&](std::int64_t h) { return to_float(w.up[i * p_.hidden + h]); }));
      const float gc = limit && g > *limit ? *limit : g;
      const float uc = limit ? std::min(std::max(u, -*limit), *limit) : u;
      gate[to_size(i)] = g;
      up[to_size(i)] = u;
      hidden[to_size(i)] = gc * sigmoid(gc) * uc;
      dh[to_size(i)] = sum_(
          p_.hidden, [&](std::int64_t h) { return to_float(dy[h]); },
          [&](std::int64_t h) { return to_float(w.down[h * w.width + i]); });
      result.d_scale += dh[to_size(i)] * hidden[to_size(i)];
    }
    for (std::int64_t h = 0; h < p_.hidden; ++h) {
      result.y.push_back(round_bf16(sum_(
          w.width, [&](std::int64_t i) { return round_bf16(hidden[to_size(i)]); },
          [&](std::int64_t i) { return to_float(w.down[h * w.width + i]); })));
    }
    const float scale = scale_of(result.d_scale);
    std::vector<float> d_gate(width), d_up(width);
    for (std::int64_t i = 0; i < w.width; ++i) {
      const float g = gate[to_size(i)];
      const float u = up[to_size(i)];
      const float gc = limit && g > *limit ? *limit : g;
      const float uc = limit ? std::min(std::max(u, -*limit), *limit) : u;
      const float s = sigmoid(g);
      const float d = scale * dh[to_size(i)];
      d_gate[to_size(i)] = round_bf16(d * uc * (s * (1.0F + g * (1.0F - s))));
      d_up[to_size(i)] = round_bf16(d * (gc * sigmoid(gc)));
      if (limit && g > *limit) {
        d_gate[to_size(i)] = 0.0F;
      }
      if (limit && std::abs(u) > *limit) {
        d_up[to_size(i)] = 0.0F;
      }
      const float scaled = round_bf16(scale * hidden[to_size(i)]);
      for (std::int64_t h = 0; h < p_.hidden; ++h) {
        const float x_h = to_float(x[h]);
        at(w.d_gate, w.first + i * p_.hidden + h) += d_gate[to_size(i)] * x_h;
        at(w.d_up, w.first + i * p_.hidden + h) += d_up[to_size(i)] * x_h;
        at(w.d_down, w.first + h * w.width + i) += scaled * to_float(dy[h]);
      }
    }
    for (std::int64_t h = 0; h < p_.hidden; ++h) {
      const float first = sum_(
          w.width, [&](std::int64_t i) { return d_gate[to_size(i)]; },
          [&](std::int64_t i) { return to_float(w.gate[i * p_.hidden + h]); });
      result.dx.push_back(round_bf16(sum_(
          w.width, [&](std::int64_t i) { return d_up[to_size(i)]; },
          [&](std::int64_t i) { return to_float(w.up[i * p_.hidden + h]); }, first)));
    }
    return result;
  }

  void shared_token(std::int64_t t, float scale, std::vector<float>& y, std::vector<float>& dx) {
    const Bf16* x = p_.x + t * p_.hidden;
    if (p_.shared_output_gate != nullptr) {
      scale = sigmoid(sum_(
          p_.hidden, [&](std::int64_t h) { return to_float(x[h]); },
          [&](std::int64_t h) { return to_float(p_.shared_output_gate[h]); }));
    }
    const Weights w{
        p_.shared_gate,       p_.shared_up,       p_.shared_down,       p_.shared_intermediate,
        Output::kDSharedGate, Output::kDSharedUp, Output::kDSharedDown, 0};
    const RowResult result = row(w, t, [&](float) { return scale; });
    for (std::size_t h = 0; h < y.size(); ++h) {
      y[h] = scale * result.y[h];
      dx[h] = result.dx[h];
    }
    if (p_.shared_output_gate != nullptr) {
      const float dz = result.d_scale * scale * (1.0F - scale);
      for (std::int64_t h = 0; h < p_.hidden; ++h) {
        dx[to_size(h)] += dz * to_float(p_.shared_output_gate[h]);
        at(Output::kDSharedOutputGate, h) += dz * to_float(x[h]);
      }
    }
  }

  void routed_slot(std::int64_t t, std::int64_t slot, std::vector<float>& y,
                   std::vector<float>& dx) {
    const std::int64_t place = t * p_.topk + slot;
    const std::int32_t e = p_.ids[place];
    if (e < 0) {
      return;
    }
    const std::int64_t first = e * p_.intermediate * p_.hidden;
    const Weights w{p_.gate + first, p_.up + first, p_.down + first, p_.intermediate,
                    Output::kDGate,  Output::kDUp,  Output::kDDown,  first};
    const RowResult result = row(w, t, [&](float) { return p_.weights[place]; });
    at(Output::kDRouter, place) = result.d_scale;
    for (std::size_t h = 0; h < y.size(); ++h) {
      y[h] += p_.weights[place] * result.y[h];
      dx[h] += result.dx[h];
    }
  }

  void finish() {
    for (const Output output : {Output::kDGate, Output::kDUp, Output::kDDown}) {
      for (float& v : out_[static_cast<std::size_t>(output)]) {
        v = p_.gradient == GradientType::kBf16       ? round_bf16(v)
            : p_.gradient == GradientType::kMainGrad ? p_.main_grad_initial + v
                                                     : v;
      }
    }
    if (p_.gradient == GradientType::kMainGrad) {
      for (std::size_t i = static_cast<std::size_t>(Output::kDSharedGate); i < kNumOutputs; ++i) {
        for (float& v : out_[i]) {
          v += p_.main_grad_initial;
        }
      }
    }
  }

  const Problem& p_;
  EmulatedSum sum_;
  Emulated out_;
};

}  // namespace mok::reference::testing
