// verify.cpp: `mok verify`: random cases, each against the reference in full.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "cli/interrupt.hpp"
#include "cli/names.hpp"
#include "cli/random_case.hpp"
#include "cli/run_case.hpp"
#include "cli/validate.hpp"
#include "cli/version.hpp"
#include "cpu/engine/engine.hpp"

namespace mok::cli {

namespace {

constexpr NumberRule kCasesRule{1, std::int64_t{1} << 24, 1};

struct VerifyRequest {
  std::int64_t num_cases = 20;
  std::uint64_t seed = 1;
  std::string engine;        // resolved
  std::int64_t workers = 0;  // 0: as drawn
};

Result<VerifyRequest> read_verify_flags(const Flags& flags) {
  VerifyRequest request;
  if (const std::string* text = flags.find("--cases")) {
    const Result<std::int64_t> number = parse_number("--cases", *text, kCasesRule);
    if (!number) {
      return failure(number.error());
    }
    request.num_cases = *number;
  }
  if (const std::string* text = flags.find("--seed")) {
    const Result<std::uint64_t> seed = parse_seed("--seed", *text);
    if (!seed) {
      return failure(seed.error());
    }
    request.seed = *seed;
  }
  if (const std::string* text = flags.find("--workers")) {
    const Result<std::int64_t> number = parse_number("--workers", *text, kWorkersRule);
    if (!number) {
      return failure(number.error());
    }
    request.workers = *number;
  }
  const std::string* engine = flags.find("--engine");
  const auto found = cpu::find_engine(engine == nullptr ? "auto" : *engine);
  if (!found) {
    return failure(with_flag_name(found.error()));
  }
  request.engine = (*found)->name;
  return request;
}

struct Failing {
  std::int64_t number = 0;
  std::string file;
  Status status;
};

struct Tally {
  std::int64_t num_passed = 0;
  std::vector<Failing> failing;
  std::array<std::optional<double>, reference::kNumOutputs> worst;  // largest error/bound
};

void add_errors(const CheckResult& check, Tally& tally) {
  for (std::size_t i = 0; i < check.outputs.size(); ++i) {
    if (check.outputs[i]) {
      tally.worst[i] = std::max(tally.worst[i].value_or(0.0), check.outputs[i]->error_over_bound);
    }
  }
}

// One case; a failing one goes into a file first. A Status that is not ok ends the whole command:
// what failed was not a comparison.
Status verify_one(const VerifyRequest& request, std::int64_t number, Progress& progress,
                  Tally& tally) {
  Case description = draw_case(request.seed, static_cast<std::uint32_t>(number));
  description.options.engine = request.engine;
  if (request.workers > 0) {
    description.options.workers = static_cast<int>(request.workers);
  }
  progress.start(fmt::format("case {} of {}", number + 1, request.num_cases));
  const Result<RunResult> result =
      run_case(description, {}, CheckMode::kFull, "", Progress::Output::kNone);
  progress.advance(1.0);
  const Status status = result ? result->check.status() : result.error();
  if (result) {
    add_errors(result->check, tally);
  }
  if (status.ok()) {
    ++tally.num_passed;
    return {};
  }
  const std::string file = fmt::format("mok-{}-{}.case.json", request.seed, number);
  const InterruptLater later;
  if (Status written = write_case(description, file); !written.ok()) {
    return written;
  }
  tally.failing.push_back({number, file, status});
  return status.code() == Code::kCheckFailed ? Status{} : status;
}

std::string tally_json(const VerifyRequest& request, const Tally& tally) {
  nlohmann::ordered_json json;
  json["ok"] = tally.failing.empty();
  json["version"] = version();
  json["backend"] = "cpu";
  json["engine"] = request.engine;
  json["cases"] = request.num_cases;
  json["seed"] = request.seed;
  json["passed"] = tally.num_passed;
  json["failed"] = tally.failing.size();
  json["failing_cases"] = nlohmann::ordered_json::array();
  for (const Failing& failing : tally.failing) {
    json["failing_cases"].push_back(
        {{"case", failing.number}, {"file", failing.file}, {"message", failing.status.message()}});
  }
  json["error_over_bound"] = nlohmann::ordered_json::object();
  for (std::size_t i = 0; i < tally.worst.size(); ++i) {
    if (tally.worst[i]) {
      json["error_over_bound"]
          [std::string{reference::output_name(static_cast<reference::Output>(i))}] =
              std::min(*tally.worst[i], 1e308);
    }
  }
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::string tally_text(const VerifyRequest& request, const Tally& tally) {
  std::string text = fmt::format("MoK {}: {} random cases, seed {}, engine {}\n", version(),
                                 request.num_cases, request.seed, request.engine);
  text += "output                 largest error/bound\n";
  for (std::size_t i = 0; i < tally.worst.size(); ++i) {
    if (tally.worst[i]) {
      text +=
          fmt::format("{:<22} {:.4f}\n", reference::output_name(static_cast<reference::Output>(i)),
                      *tally.worst[i]);
    }
  }
  for (const Failing& failing : tally.failing) {
    text += fmt::format("FAILED case {}: {}; replay: mok run --case {}\n", failing.number,
                        failing.status.message(), failing.file);
  }
  return text + fmt::format("{} passed, {} failed\n", tally.num_passed, tally.failing.size());
}

}  // namespace

int verify_command(const Flags& flags) {
  const Format format = flags.given("--json") ? Format::kJson : Format::kText;
  const Result<VerifyRequest> request = read_verify_flags(flags);
  if (!request) {
    return print_failure(request.error(), format);
  }
  Tally tally;
  Status status;
  {
    Progress progress(static_cast<double>(request->num_cases), Progress::on_stderr());
    for (std::int64_t number = 0; number < request->num_cases && status.ok(); ++number) {
      status = verify_one(*request, number, progress, tally);
    }
  }
  const Status printed = print_out(format == Format::kJson ? tally_json(*request, tally)
                                                           : tally_text(*request, tally));
  if (!status.ok()) {
    return print_failure(status, Format::kText);
  }
  if (!printed.ok()) {
    return print_failure(printed, Format::kText);
  }
  return tally.failing.empty() ? 0 : print_failure(tally.failing.front().status, Format::kText);
}

}  // namespace mok::cli
