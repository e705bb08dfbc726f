// batch.hpp: the global batch of a case: what all ranks together start from.
//
// Every number is drawn by global token, expert or matrix index, so the batch depends on the seed, the
// shape and the total number of tokens, never on how they are split over ranks.
#pragma once

#include <cstdint>
#include <vector>

#include "cli/case.hpp"
#include "cli/sources.hpp"
#include "mok/bf16.hpp"
#include "mok/status.hpp"

namespace mok::cli {

// Of one (layer, micro-batch).
struct StepInputs {
  std::vector<Bf16> x;            //                                                        [T, H]
  std::vector<Bf16> dy;           //                                                        [T, H]
  std::vector<std::int32_t> ids;  //                                                        [T, k]
  std::vector<float> weights;     //                                                        [T, k]
};

// Of one layer; what the layer does not have is empty.
struct LayerWeights {
  std::vector<Bf16> gate, up;                //                                           [E, I, H]
  std::vector<Bf16> down;                    //                                           [E, H, I]
  std::vector<Bf16> shared_gate, shared_up;  //                                              [S, H]
  std::vector<Bf16> shared_down;             //                                              [H, S]
  std::vector<Bf16> shared_output_gate;      //                                                 [H]
};

struct Batch {
  std::int64_t microbatches = 1;
  std::vector<StepInputs> steps;  // layer * microbatches + micro-batch
  std::vector<LayerWeights> layers;

  [[nodiscard]] const StepInputs& step(std::int64_t layer, std::int64_t microbatch) const {
    return steps[static_cast<std::size_t>(layer * microbatches + microbatch)];
  }
  [[nodiscard]] const LayerWeights& layer(std::int64_t index) const {
    return layers[static_cast<std::size_t>(index)];
  }
};

// x and dy are standard normal (or the states of a text's words), weights normal over the square root
// of their fan-in, so that states stay near 1 through the layer.
[[nodiscard]] Result<Batch> build_batch(const Case& description, const Sources& sources);

}  // namespace mok::cli
