// check.cpp: bounds for what the command computes, and the comparison of every output.
#include "cli/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <span>
#include <thread>
#include <vector>

#include "reference/compare.hpp"

namespace mok::cli {

namespace {

using reference::Comparison;
using reference::Expected;
using reference::Output;
using reference::SampledExpected;

constexpr double kUnitFp32 = 0x1p-24;

constexpr Output kTokenOutputs[] = {Output::kY, Output::kDx, Output::kDRouter};
constexpr Output kGradOutputs[] = {Output::kDGate,
                                   Output::kDUp,
                                   Output::kDDown,
                                   Output::kDSharedGate,
                                   Output::kDSharedUp,
                                   Output::kDSharedDown,
                                   Output::kDSharedOutputGate};

// Position among the shared gradients, for those outputs.
std::optional<std::size_t> shared_index(Output output) {
  if (output < Output::kDSharedGate) {
    return {};
  }
  return static_cast<std::size_t>(output) - static_cast<std::size_t>(Output::kDSharedGate);
}

const GradArray& routed_array(const LayerGrads& grads, Output output) {
  return output == Output::kDGate ? grads.gate : output == Output::kDUp ? grads.up : grads.down;
}

reference::GradientType gradient_type(const Case& description) {
  switch (description.grad) {
    case Grad::kBf16: return reference::GradientType::kBf16;
    case Grad::kFp32: return reference::GradientType::kFp32;
    case Grad::kMainGrad:
      // With several micro-batches each one's gradient is needed before it is added up.
      return description.microbatches == 1 ? reference::GradientType::kMainGrad
                                           : reference::GradientType::kFp32;
  }
  return reference::GradientType::kFp32;
}

reference::Problem problem_of(const Case& description, const Batch& batch, std::int64_t layer,
                              std::int64_t microbatch, std::string_view engine) {
  const StepInputs& inputs = batch.step(layer, microbatch);
  const LayerWeights& weights = batch.layer(layer);
  const LayerShape& shape = description.shape;
  reference::Problem problem;
  problem.num_tokens = description.total_tokens();
  problem.hidden = shape.hidden;
  problem.intermediate = shape.intermediate;
  problem.shared_intermediate = shape.shared_intermediate;
  problem.num_experts = shape.experts;
  problem.topk = shape.topk;
  problem.x = inputs.x.data();
  problem.dy = inputs.dy.data();
  problem.ids = inputs.ids.data();
  problem.weights = inputs.weights.data();
  problem.gate = weights.gate.data();
  problem.up = weights.up.data();
  problem.down = weights.down.data();
  problem.shared_gate = weights.shared_gate.data();
  problem.shared_up = weights.shared_up.data();
  problem.shared_down = weights.shared_down.data();
  problem.shared_output_gate =
      weights.shared_output_gate.empty() ? nullptr : weights.shared_output_gate.data();
  problem.swiglu_limit = shape.swiglu_limit;
  problem.accumulation = accumulation_of_engine(engine);
  problem.gradient = gradient_type(description);
  problem.num_ranks = description.num_ranks();
  if (description.grad == Grad::kMainGrad && description.microbatches > 1) {
    // Each rank's accumulator takes one more addition a micro-batch before the ranks are added.
    problem.num_ranks += static_cast<int>(description.microbatches);
  }
  return problem;
}

// Adds `more` to a running (value, bound) as one fp32 addition would.
void add_rounded(double& value, double& bound, double more_value, double more_bound) {
  value += more_value;
  bound += more_bound;
  bound += kUnitFp32 * (std::abs(value) + bound);
}

// One layer's reference in the full form.
class FullReference {
 public:
  void set(const reference::Problem& problem, int num_threads) {
    step_ = reference::compute(problem, num_threads);
  }
  // Sums the gradients of micro-batches.
  void accumulate() {
    for (const Output output : kGradOutputs) {
      Expected::Array& sum = sum_[output];
      const Expected::Array& step = step_[output];
      if (sum.value.empty()) {
        sum = step;
        continue;
      }
      for (std::size_t i = 0; i < sum.value.size(); ++i) {
        add_rounded(sum.value[i], sum.bound[i], step.value[i], step.bound[i]);
      }
    }
  }
  void use_sums() {
    for (const Output output : kGradOutputs) {
      step_[output] = std::move(sum_[output]);
    }
    sum_ = {};
  }
  template <class T>
  [[nodiscard]] Comparison compare(std::span<const T> result, Output output) const {
    return reference::compare(result, step_[output]);
  }

 private:
  Expected step_;
  Expected sum_;
};

// The same at the places of one draw, which all micro-batches of a layer share.
class SampledReference {
 public:
  SampledReference(const reference::Problem& first, std::uint64_t seed)
      : spec_(reference::draw_sample(first, {}, seed)) {}

  void set(const reference::Problem& problem, int num_threads) {
    step_ = reference::compute_sample(problem, spec_, num_threads);
  }
  void accumulate() {
    if (sum_.values.empty()) {
      sum_ = step_;
      return;
    }
    for (std::size_t i = 0; i < sum_.values.size(); ++i) {
      reference::SampledValue& sum = sum_.values[i];
      add_rounded(sum.value, sum.bound, step_.values[i].value, step_.values[i].bound);
    }
  }
  void use_sums() {
    for (std::size_t i = 0; i < sum_.values.size(); ++i) {
      if (sum_.values[i].output >= Output::kDGate) {
        step_.values[i] = sum_.values[i];
      }
    }
    sum_ = {};
  }
  template <class T>
  [[nodiscard]] Comparison compare(std::span<const T> result, Output output) const {
    return reference::compare(result, output, step_);
  }

 private:
  reference::SampleSpec spec_;
  SampledExpected step_;
  SampledExpected sum_;
};

class Checker {
 public:
  Checker(const Case& description, const Batch& batch, const Execution& execution,
          Progress& progress, CheckResult& result)
      : case_(description),
        batch_(batch),
        execution_(execution),
        progress_(progress),
        result_(result) {}

  Status run() {
    for (std::int64_t layer = 0; layer < case_.layers; ++layer) {
      const reference::Problem first = problem_of(case_, batch_, layer, 0, execution_.engine);
      if (Status status = reference::check(first); !status.ok()) {
        return status;
      }
      if (result_.plan.mode == CheckMode::kFull) {
        FullReference reference;
        check_layer(reference, layer);
      } else {
        SampledReference reference(first, case_.seed);
        check_layer(reference, layer);
      }
    }
    return {};
  }

 private:
  template <class Reference>
  void check_layer(Reference& reference, std::int64_t layer) {
    const int num_threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
    const bool sums = case_.grad == Grad::kMainGrad && case_.microbatches > 1;
    for (std::int64_t microbatch = 0; microbatch < case_.microbatches; ++microbatch) {
      reference.set(problem_of(case_, batch_, layer, microbatch, execution_.engine), num_threads);
      place_ = {layer, microbatch};
      const StepOutputs& step = execution_.step(layer, microbatch);
      for (const Output output : kTokenOutputs) {
        const Comparison found =
            output == Output::kDRouter
                ? reference.compare(std::span<const float>(step.d_router), output)
                : reference.compare(std::span<const Bf16>(output == Output::kY ? step.y : step.dx),
                                    output);
        record(output, found);
      }
      if (sums) {
        reference.accumulate();
      }
      progress_.advance(18.0);
    }
    if (sums) {
      reference.use_sums();
    }
    check_gradients(reference, execution_.layers[static_cast<std::size_t>(layer)]);
  }

  template <class Reference>
  void check_gradients(Reference& reference, const LayerGrads& grads) {
    for (const Output output : kGradOutputs) {
      if (const std::optional<std::size_t> which = shared_index(output)) {
        const std::vector<float>& sum = grads.shared[*which];
        if (!sum.empty()) {
          record(output, reference.compare(std::span<const float>(sum), output));
        }
        continue;
      }
      const GradArray& array = routed_array(grads, output);
      record(output, array.bf16.empty()
                         ? reference.compare(std::span<const float>(array.fp32), output)
                         : reference.compare(std::span<const Bf16>(array.bf16), output));
    }
  }

  void record(Output output, const Comparison& found) {
    std::optional<OutputError>& place = result_.outputs[static_cast<std::size_t>(output)];
    const bool is_first = !place.has_value();
    OutputError& error = is_first ? place.emplace() : *place;
    error.max_abs_err = std::max(error.max_abs_err, found.max_abs_err);
    error.rel_err = std::max(error.rel_err, found.rel_err);
    error.num_compared += found.num_compared;
    error.num_unchecked += found.num_unchecked;
    if (is_first || found.error_over_bound > error.error_over_bound) {
      error.error_over_bound = found.error_over_bound;
      error.layer = place_.layer;
      error.microbatch = place_.microbatch;
      error.worst_index = found.worst_index;
      error.worst_result = found.worst_result;
      error.worst_reference = found.worst_reference;
      error.worst_bound = found.worst_bound;
    }
  }

  struct Place {
    std::int64_t layer = 0;
    std::int64_t microbatch = 0;
  };

  const Case& case_;
  const Batch& batch_;
  const Execution& execution_;
  Progress& progress_;
  CheckResult& result_;
  Place place_;
};

}  // namespace

reference::AccumulationModel accumulation_of_engine(std::string_view engine) {
  return engine == "avx512_bf16" ? reference::AccumulationModel::kPairDot
                                 : reference::AccumulationModel::kRoundToNearest;
}

double forward_flop(const Case& description, const Batch& batch) {
  double flop = 0.0;
  for (std::int64_t layer = 0; layer < description.layers; ++layer) {
    for (std::int64_t microbatch = 0; microbatch < description.microbatches; ++microbatch) {
      flop += reference::forward_flop(problem_of(description, batch, layer, microbatch, ""));
    }
  }
  return flop;
}

CheckPlan plan_check(const Case& description, const Batch& batch, std::optional<CheckMode> asked) {
  if (asked) {
    return {*asked, "as asked"};
  }
  const double flop = forward_flop(description, batch);
  const bool is_small = flop <= kMostFlopOfFullCheck;
  return {is_small ? CheckMode::kFull : CheckMode::kSample,
          fmt::format("the forward has {:.2f} GFLOP, full goes up to {:.0f}", flop / 1e9,
                      kMostFlopOfFullCheck / 1e9)};
}

bool CheckResult::passes() const {
  return std::all_of(outputs.begin(), outputs.end(), [](const std::optional<OutputError>& error) {
    return !error || error->passes();
  });
}

Status CheckResult::status() const {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const std::optional<OutputError>& error = outputs[i];
    if (error && !error->passes()) {
      return Status::check_failed(
          std::string{reference::output_name(static_cast<Output>(i))},
          fmt::format("{:.9g} at index {} (layer {}, micro-batch {})", error->worst_result,
                      error->worst_index, error->layer, error->microbatch),
          fmt::format("must be within {:.3g} of the reference {:.9g}; error/bound {:.3g}",
                      error->worst_bound, error->worst_reference, error->error_over_bound));
    }
  }
  return {};
}

Result<CheckResult> check_execution(const Case& description, const Batch& batch,
                                    const Execution& execution, CheckPlan plan,
                                    Progress& progress) {
  CheckResult result;
  result.plan = std::move(plan);
  if (result.plan.mode == CheckMode::kOff) {
    return result;
  }
  const auto begin = std::chrono::steady_clock::now();
  if (Status status = Checker(description, batch, execution, progress, result).run();
      !status.ok()) {
    return failure(std::move(status));
  }
  const std::chrono::duration<double, std::milli> elapsed =
      std::chrono::steady_clock::now() - begin;
  result.reference_ms = elapsed.count();
  return result;
}

}  // namespace mok::cli
