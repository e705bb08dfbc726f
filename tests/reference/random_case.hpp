// random_case.hpp: small random layers for the tests of the reference; owns the arrays of a
// Problem.
#pragma once

#include <cmath>
#include <cstdint>
#include <ostream>
#include <random>
#include <vector>

#include "reference/reference.hpp"

namespace mok::reference::testing {

struct CaseSpec {
  std::int64_t num_tokens = 6;
  std::int64_t hidden = 16;
  std::int64_t intermediate = 8;
  std::int64_t shared_intermediate = 24;  // 0 = none
  std::int64_t num_experts = 4;
  std::int64_t topk = 2;
  bool has_output_gate = true;
  float swiglu_limit = 0.0F;  // 0 = none
  std::uint64_t seed = 1;

  friend std::ostream& operator<<(std::ostream& out, const CaseSpec& c) {
    return out << "seed_" << c.seed;
  }
};

struct RandomCase {
  Problem sizes;  // the pointers in here are not used: see problem()
  bool has_output_gate = false;
  std::vector<Bf16> x, dy, gate, up, down, shared_gate, shared_up, shared_down, output_gate;
  std::vector<std::int32_t> ids;
  std::vector<float> weights;

  explicit RandomCase(const CaseSpec& spec) : has_output_gate(spec.has_output_gate) {
    sizes.num_tokens = spec.num_tokens;
    sizes.hidden = spec.hidden;
    sizes.intermediate = spec.intermediate;
    sizes.shared_intermediate = spec.shared_intermediate;
    sizes.num_experts = spec.num_experts;
    sizes.topk = spec.topk;
    if (spec.swiglu_limit > 0.0F) {
      sizes.swiglu_limit = spec.swiglu_limit;
    }
    std::mt19937_64 generator(spec.seed);
    std::normal_distribution<float> normal;
    const auto draw = [&](std::int64_t count, double scale) {
      std::vector<Bf16> values(static_cast<std::size_t>(count));
      for (Bf16& value : values) {
        value = to_bf16(static_cast<float>(scale) * normal(generator));
      }
      return values;
    };
    const std::int64_t h = spec.hidden;
    const std::int64_t i = spec.intermediate;
    const std::int64_t s = spec.shared_intermediate;
    const double in = 1.5 / std::sqrt(static_cast<double>(h));
    const double out = 1.0 / std::sqrt(static_cast<double>(i));
    x = draw(spec.num_tokens * h, 1.0);
    dy = draw(spec.num_tokens * h, 1.0);
    gate = draw(spec.num_experts * i * h, in);
    up = draw(spec.num_experts * i * h, in);
    down = draw(spec.num_experts * i * h, out);
    shared_gate = draw(s * h, in);
    shared_up = draw(s * h, in);
    shared_down = draw(s * h, out);
    output_gate = draw(h, in);
    // One id in eight is -1, one token in four names its first expert twice.
    for (std::int64_t t = 0; t < spec.num_tokens; ++t) {
      for (std::int64_t slot = 0; slot < spec.topk; ++slot) {
        const bool repeats = slot == 1 && generator() % 4 == 0;
        const auto drawn =
            static_cast<std::int32_t>(generator() % static_cast<std::uint64_t>(spec.num_experts));
        const std::int32_t id = generator() % 8 == 0 ? -1 : drawn;
        ids.push_back(repeats ? ids.back() : id);
        weights.push_back(0.6F + 0.5F * normal(generator));
      }
    }
  }

  [[nodiscard]] Problem problem() const {
    Problem p = sizes;
    p.x = x.data();
    p.dy = dy.data();
    p.ids = ids.data();
    p.weights = weights.data();
    p.gate = gate.data();
    p.up = up.data();
    p.down = down.data();
    if (p.shared_intermediate > 0) {
      p.shared_gate = shared_gate.data();
      p.shared_up = shared_up.data();
      p.shared_down = shared_down.data();
      p.shared_output_gate = has_output_gate ? output_gate.data() : nullptr;
    }
    return p;
  }
};

inline const Output kAllOutputs[] = {Output::kY,           Output::kDx,
                                     Output::kDRouter,     Output::kDGate,
                                     Output::kDUp,         Output::kDDown,
                                     Output::kDSharedGate, Output::kDSharedUp,
                                     Output::kDSharedDown, Output::kDSharedOutputGate};

}  // namespace mok::reference::testing
