// run.cpp: `mok run`.
#include <optional>
#include <utility>

#include "cli/commands.hpp"
#include "cli/report.hpp"
#include "cli/run_case.hpp"

namespace mok::cli {

int run_command(const Flags& flags) {
  const Format format = flags.given("--json") ? Format::kJson : Format::kText;
  Result<RunRequest> request = read_request(flags);
  if (!request) {
    return print_failure(request.error(), format);
  }
  Result<RunResult> result = run_case(request->description, request->sources, request->check,
                                      request->outputs_path, Progress::on_stderr());
  if (!result) {
    return print_failure(result.error(), format);
  }
  if (format == Format::kJson) {
    for (const std::string& note : request->notes) {
      print_note(note);
    }
    print_note(std::string{"check "} + check_text(result->check.plan));
  }
  const Status printed = print_out(format == Format::kJson ? run_json(*request, *result)
                                                           : run_text(*request, *result));
  if (!printed.ok()) {
    return print_failure(printed, Format::kText);
  }
  const Status verdict = result->check.status();
  return verdict.ok() ? 0 : print_failure(verdict, Format::kText);
}

}  // namespace mok::cli
