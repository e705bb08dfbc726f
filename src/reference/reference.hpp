// reference.hpp: the MoE layer, forward and backward, in float64 from its definition, with error
// bounds.
//
// The reference shares no code with the program: it knows the definition of the layer and the named
// rounding points of an implementation (the table in error_model.hpp), nothing of tasks, tiles,
// rings or ranks. Every output element comes as (value, bound): a correct bf16/fp32 implementation
// differs from `value` by at most `bound`.
//
// All functions are thread-safe for distinct outputs, read the caller's memory only during the call
// and give the same bits for every number of threads.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "core/bf16.hpp"
#include "mok/status.hpp"

namespace mok::reference {

// How the implementation under test adds up the K products of a matrix element.
enum class AccumulationModel : std::uint8_t {
  kRoundToNearest,  // fp32, each addition rounded to nearest, in any order; subnormals kept
  kPairDot,         // AVX512-BF16 dot products of pairs; subnormal operands and results become 0
  kTensorCore,      // fp32 accumulator truncated at each step of 16 products
};

// What becomes of the fp32 weight gradients. Gradients of the shared expert are always the fp32 sum
// of one fp32 array per rank.
enum class GradientType : std::uint8_t {
  kBf16,      // overwritten, rounded once to bf16
  kFp32,      // overwritten, not rounded
  kMainGrad,  // added once into an fp32 accumulator of the caller
};

enum class Output : std::uint8_t {
  kY,                  // [T,H]
  kDx,                 // [T,H]
  kDRouter,            // [T,k], 0 where the id is -1
  kDGate,              // [E,I,H]
  kDUp,                // [E,I,H]
  kDDown,              // [E,H,I]
  kDSharedGate,        // [S,H]
  kDSharedUp,          // [S,H]
  kDSharedDown,        // [H,S]
  kDSharedOutputGate,  // [H]
};
inline constexpr std::size_t kNumOutputs = 10;

// "y", "dx", "d_router", ...: the names of the outputs file and of the JSON report.
[[nodiscard]] std::string_view output_name(Output output);

// One call on the global batch: all ranks' tokens concatenated. The memory stays the caller's.
struct Problem {
  std::int64_t num_tokens = 0;           // T, may be 0
  std::int64_t hidden = 0;               // H, a multiple of 8
  std::int64_t intermediate = 0;         // I, a multiple of 8
  std::int64_t shared_intermediate = 0;  // S, a multiple of 8; 0 = no shared expert
  std::int64_t num_experts = 0;          // E
  std::int64_t topk = 0;                 // k

  const Bf16* x = nullptr;                   //                                              [T,H]
  const Bf16* dy = nullptr;                  //                                              [T,H]
  const std::int32_t* ids = nullptr;         // -1 = no route; duplicates count separately   [T,k]
  const float* weights = nullptr;            //                                              [T,k]
  const Bf16* gate = nullptr;                //                                            [E,I,H]
  const Bf16* up = nullptr;                  //                                            [E,I,H]
  const Bf16* down = nullptr;                //                                            [E,H,I]
  const Bf16* shared_gate = nullptr;         //                                              [S,H]
  const Bf16* shared_up = nullptr;           //                                              [S,H]
  const Bf16* shared_down = nullptr;         //                                              [H,S]
  const Bf16* shared_output_gate = nullptr;  // nullptr = the shared output is not scaled      [H]

  std::optional<float> swiglu_limit;  // L: gate <= L, up in [-L, L]
  AccumulationModel accumulation = AccumulationModel::kRoundToNearest;
  GradientType gradient = GradientType::kBf16;
  // kMainGrad: what every accumulator holds before the call, on every rank (the shared expert's sum
  // over ranks therefore starts from num_ranks times this value).
  float main_grad_initial = 0.0F;
  int num_ranks = 1;  // over how many fp32 partial sums the shared gradients are added
};

// The first rule that the problem breaks, or ok. The functions below need a problem that passes;
// for one that does not they return empty arrays, which compare() then refuses.
[[nodiscard]] Status check(const Problem& problem);

struct Expected {
  struct Array {
    std::vector<double> value;
    std::vector<double> bound;
  };
  std::array<Array, kNumOutputs> arrays;  // empty where the problem has no such output

  [[nodiscard]] const Array& operator[](Output output) const {
    return arrays[static_cast<std::size_t>(output)];
  }
  [[nodiscard]] Array& operator[](Output output) {
    return arrays[static_cast<std::size_t>(output)];
  }
};

// All outputs, completely. Costs about six times the forward's FLOP in double.
[[nodiscard]] Expected compute(const Problem& problem, int num_threads);

// Which places compute_sample() looks at. Indices may repeat and need no order.
struct SampleSpec {
  std::vector<std::int64_t> tokens{};          // all of y, dx and d_router for these tokens
  std::vector<std::int64_t> experts{};         // for these experts, of the columns below:
  std::vector<std::int64_t> columns{};         // d_gate[e,i,:], d_up[e,i,:], d_down[e,:,i]
  std::vector<std::int64_t> shared_columns{};  // the same of the shared expert
  // d_shared_output_gate needs the whole shared expert for all tokens: all of it, or none.
  enum class OutputGate : std::uint8_t { kAll, kSkip };
  OutputGate output_gate = OutputGate::kAll;
};

struct SampleLimits {
  std::int64_t num_tokens = 32;
  std::int64_t num_experts = 8;
  std::int64_t num_columns = 8;
  std::int64_t num_shared_columns = 8;
};

// A spec drawn without repetition from `seed`; the expert with the most rows is always among the
// experts, and the first and last token among the tokens.
[[nodiscard]] SampleSpec draw_sample(const Problem& problem, const SampleLimits& limits,
                                     std::uint64_t seed);

struct SampledValue {
  Output output{};
  std::int64_t index = 0;  // flat index in the whole array
  double value = 0.0;
  double bound = 0.0;
};

struct SampledExpected {
  std::vector<SampledValue> values;  // grouped by output, in the order of the enum
};

// The same numbers as compute() gives, at the sampled places only. Empty for a problem that check()
// refuses and for a spec with an index out of range.
[[nodiscard]] SampledExpected compute_sample(const Problem& problem, const SampleSpec& spec,
                                             int num_threads);

// FLOP of one forward: 6*H*I for each routed row and 6*H*S for each token of the shared expert.
[[nodiscard]] double forward_flop(const Problem& problem);

}  // namespace mok::reference
