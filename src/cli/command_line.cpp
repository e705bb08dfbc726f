// command_line.cpp: from the words of the command line to a subcommand.
#include <algorithm>
#include <new>

#include "cli/commands.hpp"
#include "cli/report.hpp"

namespace mok::cli {

namespace {

int run_parsed(const CommandLine& line) {
  if (line.text) {
    const Status printed = print_out(*line.text);
    return printed.ok() ? 0 : print_failure(printed, Format::kText);
  }
  if (line.command == "run") {
    return run_command(line.flags);
  }
  return line.command == "verify" ? verify_command(line.flags) : doctor_command(line.flags);
}

}  // namespace

int run_command_line(const std::vector<std::string>& arguments) {
  // A command line that cannot be read still says how its refusal is wanted.
  const bool wants_json =
      std::find(arguments.begin(), arguments.end(), "--json") != arguments.end();
  const Format format = wants_json ? Format::kJson : Format::kText;
  try {
    const Result<CommandLine> line = parse_command_line(arguments);
    return line ? run_parsed(*line) : print_failure(line.error(), format);
  } catch (const std::bad_alloc&) {
    return print_failure(
        Status::environment("memory", "an allocation failed", "free memory or use smaller sizes"),
        format);
  }
}

}  // namespace mok::cli
