// layer.hpp: the pieces of the layer around the experts, shared by the full and the sampled form.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reference/error_model.hpp"
#include "reference/expert.hpp"
#include "reference/reference.hpp"
#include "reference/team.hpp"

namespace mok::reference {

// The routed rows of each expert, in the order of tokens and slots.
class ExpertRows {
 public:
  explicit ExpertRows(const Problem& problem);
  [[nodiscard]] std::span<const Row> of(std::int64_t expert) const {
    const auto first = static_cast<std::size_t>(first_[static_cast<std::size_t>(expert)]);
    const auto last = static_cast<std::size_t>(first_[static_cast<std::size_t>(expert) + 1]);
    return std::span(rows_).subspan(first, last - first);
  }

 private:
  std::vector<Row> rows_;
  std::vector<std::int64_t> first_;
};

// One row per token for the shared expert; the scale is 1 or sigmoid(x.g).
[[nodiscard]] std::vector<Row> shared_rows(const Problem& problem, const ErrorModel& model);

// 0, 1, ..., count - 1.
[[nodiscard]] std::vector<std::int64_t> all_columns(std::int64_t count);

// dz of every token from ds: the gradient at the output gate's pre-activation.
[[nodiscard]] std::vector<Approx> gate_logit_gradients(std::span<const Row> rows,
                                                       std::span<const Approx> ds,
                                                       const ErrorModel& model);

// d_shared_output_gate: sum over tokens of dz*x, finished.
[[nodiscard]] Expected::Array output_gate_gradient(const Problem& problem,
                                                   std::span<const Approx> dz,
                                                   const ErrorModel& model);

// From the fp32 sum to what the implementation returns.
[[nodiscard]] Approx finish_gradient(const Problem& problem, const ErrorModel& model, Approx sum);
[[nodiscard]] Approx finish_shared_gradient(const Problem& problem, const ErrorModel& model,
                                            Approx sum);

// Which outputs run_layer() computes; the others stay empty.
enum class Parts : std::uint8_t { kEverything, kTokensOnly };
[[nodiscard]] Expected run_layer(const Problem& problem, Parts parts, int num_threads);

}  // namespace mok::reference
