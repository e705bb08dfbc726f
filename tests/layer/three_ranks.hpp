// three_ranks.hpp: the group and the short deadlines of the tests of failures.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "layer/environment.hpp"
#include "support/layer_rig.hpp"

namespace mok::testing {

inline constexpr int kNumRanks = 3;

// 300 ms; MOK_DEADLINE_SCALE counts up to about 1 s.
inline std::int64_t progress_ms() {
  return static_cast<std::int64_t>(300.0 / std::min(deadline_scale(), 3.0));
}
inline std::chrono::milliseconds real(std::int64_t ms) {
  return std::chrono::milliseconds(
      static_cast<std::int64_t>(static_cast<double>(ms) * deadline_scale()));
}

inline LayerSpec three_ranks() {
  LayerSpec spec;
  spec.tokens = {40, 40, 40};
  spec.experts = 6;
  spec.topk = 4;
  spec.options.workers = 2;
  spec.options.progress_deadline_ms = progress_ms();
  return spec;
}

}  // namespace mok::testing
