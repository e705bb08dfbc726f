// report_text.cpp: the text of `mok run`, and how failures and notes are printed.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <thread>

#include "cli/memory.hpp"
#include "cli/names.hpp"
#include "cli/report.hpp"
#include "cli/terminal.hpp"
#include "cli/version.hpp"

namespace mok::cli {

namespace {

class Text {
 public:
  template <class... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
    text_ += '\n';
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

std::string tokens_text(const Case& description) {
  const std::vector<std::int64_t>& tokens = description.tokens;
  if (std::all_of(tokens.begin(), tokens.end(),
                  [&](std::int64_t each) { return each == tokens.front(); })) {
    return fmt::format("{} tokens each", tokens.front());
  }
  constexpr std::size_t kMost = 16;
  std::string list;
  for (std::size_t i = 0; i < std::min(tokens.size(), kMost); ++i) {
    list += (i == 0 ? "" : ",") + std::to_string(tokens[i]);
  }
  return list + (tokens.size() > kMost ? ",.." : "") + " tokens";
}

std::string input_text(const RunRequest& request) {
  const Case& description = request.description;
  if (!description.inputs_path.empty()) {
    return "everything from " + shown(description.inputs_path);
  }
  const std::string x =
      description.x == XSource::kRandom ? "random" : "words of " + shown(description.text_file());
  std::string routing;
  if (description.routing == RoutingSource::kFile) {
    routing = fmt::format("recorded from {} layer {} ({})", shown(request.sources.recording->model),
                          request.sources.recording->layer, shown(description.routing_path));
  } else if (description.routing == RoutingSource::kRandom) {
    routing = "random";
  } else {
    routing = word_of(description.routing, kRoutingWords);
  }
  return fmt::format("x: {}; routing: {}; seed {}", x, routing, description.seed);
}

void add_ranks(const Execution& execution, Text& text) {
  constexpr std::size_t kMost = 32;
  std::int64_t total = 0;
  for (const RankReport& rank : execution.ranks) {
    total += rank.rows;
  }
  const double mean = static_cast<double>(total) / static_cast<double>(execution.ranks.size());
  text.line("");
  text.line("rank       rows   load   phases   ring turns   replayed rows");
  for (std::size_t i = 0; i < std::min(execution.ranks.size(), kMost); ++i) {
    const RankReport& rank = execution.ranks[i];
    text.line("{:>4} {:>10} {:>5.2f}x {:>8} {:>12} {:>15}", i, rank.rows,
              mean > 0.0 ? static_cast<double>(rank.rows) / mean : 0.0, rank.phases,
              rank.ring_turns, rank.replayed_rows);
  }
  if (execution.ranks.size() > kMost) {
    text.line("  .. and {} more ranks (--json has all)", execution.ranks.size() - kMost);
  }
}

void add_times(const RunResult& result, Text& text) {
  const auto slowest = [&](double RankReport::*which) {
    double most = 0.0;
    for (const RankReport& rank : result.execution.ranks) {
      most = std::max(most, rank.*which);
    }
    return most;
  };
  const auto rate = [](double flop, double time_ms) {
    return time_ms > 0.0 ? flop / time_ms / 1e6 : 0.0;
  };
  const double forward = slowest(&RankReport::forward_ms);
  const double backward = slowest(&RankReport::backward_ms);
  text.line("");
  text.line("time of the slowest rank        ms   GFLOP/s of all ranks");
  text.line("route                   {:>10.2f}", slowest(&RankReport::route_ms));
  text.line("forward                 {:>10.2f}   {:>8.1f}", forward,
            rate(result.forward_flop, forward));
  text.line("backward                {:>10.2f}   {:>8.1f}", backward,
            rate(2.0 * result.forward_flop, backward));
  text.line("reference and check     {:>10.2f}", result.check.reference_ms);
}

void add_transfers(const Execution& execution, Text& text) {
  struct Row {
    const char* name;
    std::string_view direction;
    TransferCounts RankReport::*which;
  };
  const Options& options = execution.options;
  const Row rows[] = {
      {"dispatch", word_of(options.dispatch, kDispatchWords), &RankReport::dispatch},
      {"combine", word_of(options.combine, kCombineWords), &RankReport::combine},
      {"dy dispatch", word_of(options.dy_dispatch, kDispatchWords), &RankReport::dy_dispatch},
      {"dx combine", word_of(options.dx_combine, kCombineWords), &RankReport::dx_combine}};
  text.line("");
  text.line("transfers     direction         bytes   rows read   rows written");
  for (const Row& row : rows) {
    TransferCounts sum;
    for (const RankReport& rank : execution.ranks) {
      sum.bytes += (rank.*row.which).bytes;
      sum.remote_reads += (rank.*row.which).remote_reads;
      sum.remote_writes += (rank.*row.which).remote_writes;
    }
    text.line("{:<13} {:<9} {:>13} {:>11} {:>14}", row.name, row.direction, sum.bytes,
              sum.remote_reads, sum.remote_writes);
  }
}

void add_outputs(const RunResult& result, Text& text) {
  const CheckResult& check = result.check;
  text.line("");
  text.line("check: {} ({})", word_of(check.plan.mode, kCheckWords), check.plan.reason);
  text.line("output                 max abs err    rel err   error/bound      checked   hash");
  for (std::size_t i = 0; i < result.hashes.size(); ++i) {
    if (!result.hashes[i]) {
      continue;
    }
    const std::string_view name = reference::output_name(static_cast<reference::Output>(i));
    if (check.outputs[i]) {
      const OutputError& error = *check.outputs[i];
      text.line("{:<22} {:>11.3e} {:>10.3e} {:>13.4f} {:>12}   {}", name, error.max_abs_err,
                error.rel_err, error.error_over_bound, error.num_compared, *result.hashes[i]);
      if (error.num_unchecked > 0) {
        text.line("{:<22} {} elements have no finite reference (NaN or Inf in the inputs)", "",
                  error.num_unchecked);
      }
    } else {
      text.line("{:<22} {:>11} {:>10} {:>13} {:>12}   {}", name, "-", "-", "-", 0,
                *result.hashes[i]);
    }
  }
}

std::string verdict(const RunResult& result) {
  if (result.check.plan.mode == CheckMode::kOff) {
    return "done, nothing checked (--check off)";
  }
  if (const Status status = result.check.status(); !status.ok()) {
    return "FAILED: " + status.message();
  }
  double most = 0.0;
  for (const std::optional<OutputError>& error : result.check.outputs) {
    most = error ? std::max(most, error->error_over_bound) : most;
  }
  return fmt::format("ok: every output is within its error bound (largest error/bound {:.4f})",
                     most);
}

}  // namespace

std::string run_text(const RunRequest& request, const RunResult& result) {
  const Case& description = request.description;
  const LayerShape& shape = description.shape;
  const Execution& execution = result.execution;
  const Options& options = execution.options;
  Text text;
  text.line("MoK {}: one training step of a mixture-of-experts layer", version());
  text.line(
      "shape     {} ranks with {}, hidden {}, intermediate {}, shared {}{}, {} experts, top-{}",
      description.num_ranks(), tokens_text(description), shape.hidden, shape.intermediate,
      shape.shared_intermediate, shape.output_gate ? " with output gate" : "", shape.experts,
      shape.topk);
  if (description.layers != 1 || description.microbatches != 1) {
    text.line("          {} layers, {} micro-batches; counts are sums, errors maxima over them",
              description.layers, description.microbatches);
  }
  text.line("input     {}", input_text(request));
  text.line("machine   cpu, engine {}, workers a rank: {}, {} hardware threads", execution.engine,
            options.workers == 0 ? "auto" : std::to_string(options.workers),
            std::thread::hardware_concurrency());
  text.line(
      "options   dispatch {}, combine {}, dy-dispatch {}, dx-combine {}, ring {} rows, saved {} "
      "rows,"
      " save {}, grad {}{}",
      word_of(options.dispatch, kDispatchWords), word_of(options.combine, kCombineWords),
      word_of(options.dy_dispatch, kDispatchWords), word_of(options.dx_combine, kCombineWords),
      options.ring_rows, options.saved_rows, word_of(options.save, kSaveWords),
      word_of(description.grad, kGradWords),
      shape.swiglu_limit ? fmt::format(", swiglu-limit {}", *shape.swiglu_limit) : "");
  for (const std::string& note : request.notes) {
    text.line("note      {}", note);
  }
  add_ranks(execution, text);
  add_times(result, text);
  add_transfers(execution, text);
  text.line("");
  text.line("memory of workspaces and contexts: {} bytes ({}), formula {} bytes",
            execution.peak_bytes, bytes_text(execution.peak_bytes), execution.formula_bytes);
  add_outputs(result, text);
  text.line("determinism: run_to_run, schedule_invariant, ep_invariant");
  if (!request.outputs_path.empty()) {
    text.line("written: {}", shown(request.outputs_path));
  }
  text.line("");
  text.line("{}", verdict(result));
  return text.take();
}

Status print_out(const std::string& text) {
  const bool is_written =
      std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
  return is_written
             ? Status{}
             : Status::environment("standard output", "write failed", "must be open and have room");
}

int print_failure(const Status& status, Format format) {
  print_err(fmt::format("mok: {}\n", status.message()));
  if (format == Format::kJson) {
    // The line on stderr has said what is wrong; a second failure could say no more.
    [[maybe_unused]] const Status printed = print_out(failure_json(status));
  }
  return exit_status(status.code());
}

void print_note(const std::string& note) {
  print_err(fmt::format("mok: note: {}\n", note));
}

}  // namespace mok::cli
