// report_json.cpp: the JSON object of `mok run`. Its keys are a contract: docs and programs rely on them.
#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "cli/names.hpp"
#include "cli/report.hpp"
#include "cli/version.hpp"

namespace mok::cli {

namespace {

using Json = nlohmann::ordered_json;

std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

// JSON has no infinity.
double finite(double value) {
  constexpr double kMost = std::numeric_limits<double>::max();
  return value != value ? kMost : std::clamp(value, -kMost, kMost);
}

template <class Value>
std::vector<std::int64_t> of_ranks(const Execution& execution, Value value) {
  std::vector<std::int64_t> values;
  for (const RankReport& rank : execution.ranks) {
    values.push_back(rank.*value);
  }
  return values;
}

Json transfer(const Execution& execution, TransferCounts RankReport::*which,
              std::string_view direction) {
  TransferCounts sum;
  for (const RankReport& rank : execution.ranks) {
    const TransferCounts& counts = rank.*which;
    sum.bytes += counts.bytes;
    sum.remote_reads += counts.remote_reads;
    sum.remote_writes += counts.remote_writes;
  }
  return {{"direction", direction},
          {"bytes", sum.bytes},
          {"remote_reads", sum.remote_reads},
          {"remote_writes", sum.remote_writes}};
}

double slowest(const Execution& execution, double RankReport::*which) {
  double most = 0.0;
  for (const RankReport& rank : execution.ranks) {
    most = std::max(most, rank.*which);
  }
  return most;
}

Json errors_of(const CheckResult& check, double OutputError::*which) {
  Json json = Json::object();
  for (std::size_t i = 0; i < check.outputs.size(); ++i) {
    if (check.outputs[i]) {
      json[std::string{reference::output_name(static_cast<reference::Output>(i))}] =
          finite(*check.outputs[i].*which);
    }
  }
  return json;
}

Json hashes_of(const Hashes& hashes) {
  Json json = Json::object();
  for (std::size_t i = 0; i < hashes.size(); ++i) {
    if (hashes[i]) {
      json[std::string{reference::output_name(static_cast<reference::Output>(i))}] = *hashes[i];
    }
  }
  return json;
}

}  // namespace

std::string run_json(const RunRequest& request, const RunResult& result) {
  const Case& description = request.description;
  const LayerShape& shape = description.shape;
  const Execution& execution = result.execution;
  const Options& options = execution.options;
  const std::string_view dispatch = word_of(options.dispatch, kDispatchWords);
  const std::string_view combine = word_of(options.combine, kCombineWords);
  const std::string_view dy_dispatch = word_of(options.dy_dispatch, kDispatchWords);
  const std::string_view dx_combine = word_of(options.dx_combine, kCombineWords);
  Json json;
  json["ok"] = result.check.passes();
  json["version"] = version();
  json["backend"] = "cpu";
  json["engine"] = execution.engine;
  json["ranks"] = description.num_ranks();
  json["shape"] = {
      {"tokens", description.tokens},       {"hidden", shape.hidden},
      {"intermediate", shape.intermediate}, {"shared_intermediate", shape.shared_intermediate},
      {"experts", shape.experts},           {"topk", shape.topk}};
  json["options"] = {{"dispatch", dispatch},
                     {"combine", combine},
                     {"dy_dispatch", dy_dispatch},
                     {"dx_combine", dx_combine},
                     {"ring_rows", options.ring_rows},
                     {"saved_rows", options.saved_rows},
                     {"save", word_of(options.save, kSaveWords)},
                     {"grad", word_of(description.grad, kGradWords)}};
  json["determinism"] = {"run_to_run", "schedule_invariant", "ep_invariant"};
  json["rows_per_rank"] = of_ranks(execution, &RankReport::rows);
  json["phases"] = of_ranks(execution, &RankReport::phases);
  json["ring_turns"] = of_ranks(execution, &RankReport::ring_turns);
  json["replayed_rows"] = of_ranks(execution, &RankReport::replayed_rows);
  json["transfers"] = {{"dispatch", transfer(execution, &RankReport::dispatch, dispatch)},
                       {"combine", transfer(execution, &RankReport::combine, combine)},
                       {"dy_dispatch", transfer(execution, &RankReport::dy_dispatch, dy_dispatch)},
                       {"dx_combine", transfer(execution, &RankReport::dx_combine, dx_combine)}};
  json["time_ms"] = {{"route", slowest(execution, &RankReport::route_ms)},
                     {"forward", slowest(execution, &RankReport::forward_ms)},
                     {"backward", slowest(execution, &RankReport::backward_ms)},
                     {"reference", result.check.reference_ms}};
  json["peak_bytes"] = execution.peak_bytes;
  json["formula_bytes"] = execution.formula_bytes;
  json["max_abs_err"] = errors_of(result.check, &OutputError::max_abs_err);
  json["rel_err"] = errors_of(result.check, &OutputError::rel_err);
  json["error_over_bound"] = errors_of(result.check, &OutputError::error_over_bound);
  json["hash"] = hashes_of(result.hashes);
  return dump(json);
}

std::string failure_json(const Status& status) {
  Json error;
  error["code"] = code_name(status.code());
  if (const Status::WaitFacts& wait = status.wait(); wait.rank >= 0 || !wait.site.empty()) {
    error["argument"] = "rank " + std::to_string(wait.rank);
    error["value"] = wait.site;
    error["rule"] = status.message();
  } else {
    error["argument"] = status.argument();
    error["value"] = status.value();
    error["rule"] = status.rule();
  }
  return dump(Json{{"ok", false}, {"error", error}});
}

}  // namespace mok::cli
