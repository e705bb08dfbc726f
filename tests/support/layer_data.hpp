// layer_data.hpp: one layer and one batch for the layer's tests: inputs drawn by global index,
// outputs that start as NaN.
//
// Every value is a function of (seed, array, global index): equal seed and equal total tokens give
// the same batch for every number of ranks and every split of the tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "core/bf16.hpp"
#include "core/geometry.hpp"
#include "mok/layer.hpp"
#include "reference/reference.hpp"
#include "sync/words.hpp"

namespace mok::testing {

enum class Routes : std::uint32_t {
  kUniform,     // distinct or not, as drawn
  kSomeOff,     // one id in ten is -1
  kTokensOff,   // every third token has no route at all
  kRankOff,     // the tokens of rank `hot` have none
  kAllOff,      // nobody has any
  kOneExpert,   // all slots to expert `hot`
  kOneRank,     // all slots to the experts of rank `hot`
  kRepeats,     // a token names expert `hot` twice, then two others
  kFewExperts,  // only every third expert is used
  kSkewed       // half of the slots to expert 1, none to expert 0, one in ten is -1
};

struct LayerSpec {
  std::vector<std::int64_t> tokens{16};  // per rank
  std::int64_t max_tokens = 0;           // 0: the most of `tokens`
  std::int64_t hidden = 40;
  std::int64_t intermediate = 24;
  std::int64_t shared = 16;
  std::int64_t experts = 5;
  std::int64_t topk = 2;
  bool output_gate = false;
  float limit = 0.0F;  // 0: none
  Options options = default_options();
  Grad grad = Grad::kBf16;
  Grad shared_grad = Grad::kFp32;
  Routes routes = Routes::kUniform;
  std::int64_t hot = 0;
  std::uint64_t seed = 1;
  Geometry geo;
  Epoch first_epoch = 1;

  static Options default_options() {
    Options options;
    options.workers = 1;
    options.engine = "scalar";
    options.progress_deadline_ms = 60'000;
    return options;
  }
  [[nodiscard]] int num_ranks() const { return static_cast<int>(tokens.size()); }
  [[nodiscard]] std::int64_t num_tokens() const;
  [[nodiscard]] std::int64_t first_token(int rank) const;
  [[nodiscard]] LayerShape shape() const;
};
std::ostream& operator<<(std::ostream& out, const LayerSpec& spec);

// `total` tokens over `num_ranks` ranks, the first ranks one more; or all odd sizes, some of them
// 0.
[[nodiscard]] std::vector<std::int64_t> split_evenly(std::int64_t total, int num_ranks);
[[nodiscard]] std::vector<std::int64_t> split_unevenly(std::int64_t total, int num_ranks);

struct LayerData {
  explicit LayerData(const LayerSpec& of);

  LayerSpec spec;
  std::vector<Bf16> x, dy;           // [tokens, H]
  std::vector<std::int32_t> ids;     // [tokens, k]
  std::vector<float> weights;        // [tokens, k]
  std::vector<Bf16> gate, up, down;  // [E, I, H], [E, I, H], [E, H, I]
  std::vector<Bf16> shared_gate, shared_up, shared_down;
  std::vector<Bf16> output_gate;  // [H]

  [[nodiscard]] std::size_t expert_elements() const {
    return gate.size() / static_cast<std::size_t>(spec.experts);
  }
  [[nodiscard]] reference::Problem problem() const;
  [[nodiscard]] Weights rank_weights(int rank) const;
};

// A gradient array of either element type.
struct GradArray {
  Grad kind = Grad::kBf16;
  std::vector<Bf16> bf16;
  std::vector<float> f32;

  GradArray() = default;
  GradArray(Grad of, std::size_t count);  // NaN, or 1 for main_grad
  [[nodiscard]] void* at(std::size_t i) {
    return kind == Grad::kBf16 ? static_cast<void*>(bf16.data() + i) : f32.data() + i;
  }
  [[nodiscard]] std::size_t size() const { return kind == Grad::kBf16 ? bf16.size() : f32.size(); }
  [[nodiscard]] float value(std::size_t i) const {
    return kind == Grad::kBf16 ? to_float(bf16[i]) : f32[i];
  }
};

struct LayerResult {
  explicit LayerResult(const LayerData& data);

  std::vector<Bf16> y, dx;
  std::vector<float> d_router;
  GradArray gate, up, down;                                                        // all experts
  std::vector<GradArray> shared_gate, shared_up, shared_down, shared_output_gate;  // per rank
  std::vector<CallReport> forward, backward;                                       // per rank
};

// "" when every bit is equal, else the first place that differs.
enum class Shared : std::uint8_t { kCompare, kSkip };
[[nodiscard]] std::string first_difference(const LayerResult& a, const LayerResult& b,
                                           Shared shared);

// "" when every output is within its bound, else the worst place of the first that is not. The
// shared gradients are summed over ranks in rank order.
[[nodiscard]] std::string first_excess(const reference::Problem& problem,
                                       const LayerResult& result);

// Engines that this machine has.
[[nodiscard]] std::vector<std::string> engines();

}  // namespace mok::testing
