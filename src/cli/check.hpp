// check.hpp: an execution against the float64 reference, in full or at sampled places.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "cli/batch.hpp"
#include "cli/case.hpp"
#include "cli/execute.hpp"
#include "cli/progress.hpp"
#include "mok/status.hpp"
#include "reference/reference.hpp"

namespace mok::cli {

// Errors of one output: maxima over layers and micro-batches, and the worst place.
struct OutputError {
  double max_abs_err = 0.0;
  double rel_err = 0.0;
  double error_over_bound = 0.0;
  std::int64_t num_compared = 0;
  std::int64_t num_unchecked = 0;  // no finite reference: NaN or Inf in the inputs
  std::int64_t layer = 0;          // of the worst place
  std::int64_t microbatch = 0;
  std::int64_t worst_index = -1;
  double worst_result = 0.0;
  double worst_reference = 0.0;
  double worst_bound = 0.0;

  // NaN fails too.
  [[nodiscard]] bool passes() const { return error_over_bound < 1.0; }
};

// Of the forward of all steps; beyond, the default check samples.
inline constexpr double kMostFlopOfFullCheck = 10e9;

struct CheckPlan {
  CheckMode mode = CheckMode::kFull;
  std::string reason;  // why this mode
};
// `asked` if given, else full where the forward of all steps is at most that.
[[nodiscard]] CheckPlan plan_check(const Case& description, const Batch& batch,
                                   std::optional<CheckMode> asked);

// FLOP of the forwards, counted from the routes: 6*H*I a row, 6*H*S a token.
[[nodiscard]] double forward_flop(const Case& description, const Batch& batch);

struct CheckResult {
  CheckPlan plan;
  std::array<std::optional<OutputError>, reference::kNumOutputs> outputs;  // absent: no such output
  double reference_ms = 0.0;

  [[nodiscard]] bool passes() const;
  // The first output that fails, as one line; ok when none does.
  [[nodiscard]] Status status() const;
};

// Every output of `execution` against what the reference says for `batch`; the error bounds follow
// the engine's way of adding up.
[[nodiscard]] Result<CheckResult> check_execution(const Case& description, const Batch& batch,
                                                  const Execution& execution, CheckPlan plan,
                                                  Progress& progress);

[[nodiscard]] reference::AccumulationModel accumulation_of_engine(std::string_view engine);

}  // namespace mok::cli
