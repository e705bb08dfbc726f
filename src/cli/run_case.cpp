// run_case.cpp: runs one case from start to end.
#include "cli/run_case.hpp"

#include <new>
#include <utility>

#include "cli/names.hpp"

namespace mok::cli {

namespace {

// A forward counts 1, a backward 2, the full reference of a step about 18 in fp64.
double total_work(const Case& description) {
  return 21.0 * static_cast<double>(description.layers * description.microbatches);
}

Result<RunResult> run_steps(const Case& description, const Sources& sources,
                            std::optional<CheckMode> asked, const std::string& outputs_path,
                            Progress& progress) {
  progress.start("drawing the batch");
  Result<Batch> batch = build_batch(description, sources);
  if (!batch) {
    return failure(batch.error());
  }
  RunResult result;
  result.forward_flop = forward_flop(description, *batch);
  CheckPlan plan = plan_check(description, *batch, asked);
  progress.start("forward and backward");
  Result<Execution> execution = execute(description, *batch, progress);
  if (!execution) {
    return failure(execution.error());
  }
  result.execution = std::move(*execution);
  result.hashes = hash_outputs(result.execution);
  if (!outputs_path.empty()) {
    progress.start("writing the outputs");
    if (Status status = write_outputs(description, *batch, result.execution, outputs_path);
        !status.ok()) {
      return failure(in_flag("--outputs", outputs_path, status));
    }
  }
  progress.start("float64 reference");
  Result<CheckResult> check =
      check_execution(description, *batch, result.execution, std::move(plan), progress);
  if (!check) {
    return failure(check.error());
  }
  result.check = std::move(*check);
  return result;
}

}  // namespace

Result<RunResult> run_case(const Case& description, const Sources& sources,
                           std::optional<CheckMode> asked, const std::string& outputs_path,
                           Progress::Output progress_output) {
  Progress progress(total_work(description), progress_output);
  try {
    return run_steps(description, sources, asked, outputs_path, progress);
  } catch (const std::bad_alloc&) {
    return failure(
        Status::environment("memory", "an allocation failed", "free memory or use smaller sizes"));
  }
}

std::string check_text(const CheckPlan& plan) {
  return std::string{word_of(plan.mode, kCheckWords)} + ": " + plan.reason;
}

}  // namespace mok::cli
