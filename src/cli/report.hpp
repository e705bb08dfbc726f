// report.hpp: what the command prints: text for people, one JSON object for programs.
#pragma once

#include <string>
#include <vector>

#include "cli/batch.hpp"
#include "cli/case.hpp"
#include "cli/check.hpp"
#include "cli/execute.hpp"
#include "cli/outputs.hpp"
#include "cli/request.hpp"
#include "mok/status.hpp"

namespace mok::cli {

// Everything that a run found out.
struct RunResult {
  Execution execution;
  CheckResult check;
  Hashes hashes;
  double forward_flop = 0.0;
};

[[nodiscard]] std::string run_text(const RunRequest& request, const RunResult& result);
[[nodiscard]] std::string run_json(const RunRequest& request, const RunResult& result);

// {"ok":false,"error":{"code","argument","value","rule"}}
[[nodiscard]] std::string failure_json(const Status& status);

// Prints a whole output; a full disk or closed pipe is an environment failure.
[[nodiscard]] Status print_out(const std::string& text);
// The one line of a failure on stderr, with its JSON object on stdout where asked; the exit status.
[[nodiscard]] int print_failure(const Status& status, Format format);
// `mok: note: ...` on stderr.
void print_note(const std::string& note);

}  // namespace mok::cli
