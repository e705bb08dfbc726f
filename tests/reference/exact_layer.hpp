// exact_layer.hpp: the forward of the layer in double on double inputs, as the definition reads.
//
// For finite differences: inputs are double, so they can be moved by any step.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "random_case.hpp"

namespace mok::reference::testing {

struct ExactLayer {
  std::int64_t num_tokens, hidden, intermediate, shared_intermediate, topk;
  double limit;
  bool has_output_gate;
  std::vector<std::int32_t> ids;
  std::vector<double> x, dy, weights, gate, up, down, shared_gate, shared_up, shared_down,
      output_gate;

  explicit ExactLayer(const RandomCase& from)
      : num_tokens(from.sizes.num_tokens),
        hidden(from.sizes.hidden),
        intermediate(from.sizes.intermediate),
        shared_intermediate(from.sizes.shared_intermediate),
        topk(from.sizes.topk),
        limit(from.sizes.swiglu_limit ? static_cast<double>(*from.sizes.swiglu_limit) : 1e300),
        has_output_gate(from.has_output_gate && from.sizes.shared_intermediate > 0),
        ids(from.ids),
        x(widen(from.x)),
        dy(widen(from.dy)),
        weights(from.weights.begin(), from.weights.end()),
        gate(widen(from.gate)),
        up(widen(from.up)),
        down(widen(from.down)),
        shared_gate(widen(from.shared_gate)),
        shared_up(widen(from.shared_up)),
        shared_down(widen(from.shared_down)),
        output_gate(widen(from.output_gate)) {}

  // down * (silu(min(gate x, L)) * clamp(up x, -L, L)), times `scale`, added to y.
  void add_expert(const double* row, const double* g, const double* u, const double* d,
                  std::int64_t width, double scale, double* y) const {
    for (std::int64_t i = 0; i < width; ++i) {
      double a = 0.0;
      double b = 0.0;
      for (std::int64_t h = 0; h < hidden; ++h) {
        a += g[i * hidden + h] * row[h];
        b += u[i * hidden + h] * row[h];
      }
      a = std::min(a, limit);
      b = std::clamp(b, -limit, limit);
      const double product = a / (1.0 + std::exp(-a)) * b;
      for (std::int64_t h = 0; h < hidden; ++h) {
        y[h] += scale * d[h * width + i] * product;
      }
    }
  }

  [[nodiscard]] std::vector<double> forward() const {
    std::vector<double> y(x.size());
    for (std::int64_t t = 0; t < num_tokens; ++t) {
      const double* row = x.data() + t * hidden;
      double* out = y.data() + t * hidden;
      if (shared_intermediate > 0) {
        double z = 0.0;
        for (std::int64_t h = 0; h < hidden; ++h) {
          z += row[h] * output_gate[static_cast<std::size_t>(h)];
        }
        add_expert(row, shared_gate.data(), shared_up.data(), shared_down.data(),
                   shared_intermediate, has_output_gate ? 1.0 / (1.0 + std::exp(-z)) : 1.0, out);
      }
      for (std::int64_t slot = 0; slot < topk; ++slot) {
        const auto place = static_cast<std::size_t>(t * topk + slot);
        if (ids[place] >= 0) {
          const std::int64_t first = ids[place] * intermediate * hidden;
          add_expert(row, gate.data() + first, up.data() + first, down.data() + first, intermediate,
                     weights[place], out);
        }
      }
    }
    return y;
  }

  // sum dy*y
  [[nodiscard]] double loss() const {
    const std::vector<double> y = forward();
    double sum = 0.0;
    for (std::size_t i = 0; i < y.size(); ++i) {
      sum += dy[i] * y[i];
    }
    return sum;
  }

 private:
  static std::vector<double> widen(const std::vector<Bf16>& values) {
    std::vector<double> wide;
    for (const Bf16 v : values) {
      wide.push_back(static_cast<double>(to_float(v)));
    }
    return wide;
  }
};

}  // namespace mok::reference::testing
