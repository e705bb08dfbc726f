// execute.hpp: one case on R ranks in this process: forward and backward over layers and micro-batches.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cli/batch.hpp"
#include "cli/case.hpp"
#include "cli/progress.hpp"
#include "mok/layer.hpp"
#include "mok/status.hpp"

namespace mok::cli {

// A gradient in the form that the case asks for; the other vector stays empty.
struct GradArray {
  std::vector<Bf16> bf16;
  std::vector<float> fp32;

  [[nodiscard]] void* data() {
    return bf16.empty() ? static_cast<void*>(fp32.data()) : static_cast<void*>(bf16.data());
  }
  [[nodiscard]] std::size_t size() const { return bf16.size() + fp32.size(); }
};

// Results of one (layer, micro-batch), concatenated over ranks.
struct StepOutputs {
  std::vector<Bf16> y, dx;      //                                                           [T, H]
  std::vector<float> d_router;  //                                                           [T, k]
};

// The shared expert's gradients: gate, up, down, output gate.
inline constexpr std::size_t kNumShared = 4;
using SharedGrads = std::array<std::vector<float>, kNumShared>;

// Gradients of one layer, as after the last micro-batch.
struct LayerGrads {
  GradArray gate, up, down;               // over all experts
  std::vector<SharedGrads> shared_ranks;  // each rank's own sums
  SharedGrads shared;                     // their sum in rank order
};

// Over all layers and micro-batches of one rank.
struct RankReport {
  std::int64_t rows = 0;
  std::int64_t phases = 0;
  std::int64_t ring_turns = 0;
  std::int64_t replayed_rows = 0;
  TransferCounts dispatch, combine, dy_dispatch, dx_combine;
  double route_ms = 0;
  double forward_ms = 0;
  double backward_ms = 0;
};

struct Execution {
  std::int64_t microbatches = 1;
  std::vector<StepOutputs> steps;  // layer * microbatches + micro-batch
  std::vector<LayerGrads> layers;
  std::vector<RankReport> ranks;
  Options options;                  // defaults filled in
  std::string engine;               // resolved
  std::uint64_t peak_bytes = 0;     // what workspaces and contexts of all ranks allocated
  std::uint64_t formula_bytes = 0;  // what the formula says for the same

  [[nodiscard]] const StepOutputs& step(std::int64_t layer, std::int64_t microbatch) const {
    return steps[static_cast<std::size_t>(layer * microbatches + microbatch)];
  }
};

// For each micro-batch the forward of all layers, then the backward in reverse. Results start as NaN
// (main_grad as zero), so whatever a call leaves out shows.
[[nodiscard]] Result<Execution> execute(const Case& description, const Batch& batch,
                                        Progress& progress);

}  // namespace mok::cli
