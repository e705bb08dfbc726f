// flags.cpp: the flags of each command, and CLI11 (this file alone includes it: 5 s to compile).
#include "cli/flags.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <deque>
#include <span>

#include "cli/names.hpp"
#include "cli/version.hpp"

namespace mok::cli {

namespace {

struct FlagRow {
  const char* name;
  const char* value;  // nullptr: a switch
  const char* group;
  const char* help;
};

constexpr const char* kShape = "Shape";
constexpr const char* kInput = "Input";
constexpr const char* kOptions = "How it runs (changes no bit of the results, but for --engine)";
constexpr const char* kCheck = "Evidence";

constexpr FlagRow kRunFlags[] = {
    {"--ranks", "R", kShape, "ranks of the expert-parallel group (4)"},
    {"--tokens", "N|N,N,..", kShape, "tokens of each rank, or one number for all (64)"},
    {"--hidden", "H", kShape, "a multiple of 8 (512)"},
    {"--intermediate", "I", kShape, "a multiple of 8 (256)"},
    {"--shared-intermediate", "S", kShape,
     "width of the shared expert, 0 = none (as --intermediate)"},
    {"--output-gate", nullptr, kShape, "scale the shared output by sigmoid(x.g)"},
    {"--swiglu-limit", "L", kShape, "clamp: gate <= L, up in [-L, L] (none)"},
    {"--experts", "E", kShape, "over all ranks (16)"},
    {"--topk", "K", kShape, "slots a token, 1 to 32 (4)"},
    {"--model", "NAME/SLICE", kShape,
     "kimi-k2.7, glm-5.2, qwen3.5-397b, deepseek-v4-pro (/ep8, /ep64) or qwen3-30b/ep8"},
    {"--layers", "N", kShape, "layers on one workspace (1)"},
    {"--microbatches", "N", kShape, "micro-batches, one after the other (1)"},
    {"--x", "text:FILE|random", kInput, "token states (a text of this machine)"},
    {"--routing", "KIND", kInput, "router, uniform, zipf, hot or file:PATH (router)"},
    {"--inputs", "FILE", kInput, "everything from a safetensors file"},
    {"--case", "FILE", kInput, "replay a case that mok verify wrote"},
    {"--seed", "N", kInput, "of everything that is drawn (1)"},
    {"--backend", "NAME", kOptions, "auto, cpu or cuda (auto)"},
    {"--engine", "NAME", kOptions, "auto, scalar, avx2 or avx512_bf16 (auto; bits differ)"},
    {"--workers", "N", kOptions, "threads a rank (as many as the machine allows)"},
    {"--ring-rows", "N|min", kOptions, "rows of each ring, a multiple of 64 (balanced)"},
    {"--saved-rows", "N", kOptions, "rows a context keeps, a multiple of 64 (1.25 x balanced)"},
    {"--dispatch", "push|pull", kOptions, "x rows to the experts (pull)"},
    {"--combine", "scatter|push|pull", kOptions, "y rows back (scatter)"},
    {"--dy-dispatch", "push|pull", kOptions, "dy rows to the experts (pull)"},
    {"--dx-combine", "scatter|push|pull", kOptions, "dx rows back (scatter)"},
    {"--save", "all|none", kOptions, "what a forward keeps for its backward (all)"},
    {"--join-deadline-ms", "N", kOptions, "longest wait for a rank to enter a call (600000)"},
    {"--progress-deadline-ms", "N", kOptions, "longest silence of a rank (10000)"},
    {"--grad", "bf16|fp32|main-grad", kCheck, "form of the weight gradients (bf16)"},
    {"--check", "full|sample|off", kCheck, "against the float64 reference (full to 10 GFLOP)"},
    {"--outputs", "FILE", kCheck, "write inputs and results as safetensors"},
    {"--json", nullptr, kCheck, "print one JSON object instead of text"},
};

constexpr FlagRow kVerifyFlags[] = {
    {"--cases", "N", kInput, "how many random cases (20)"},
    {"--seed", "N", kInput, "of the cases (1)"},
    {"--engine", "NAME", kOptions, "auto, scalar, avx2 or avx512_bf16 (auto)"},
    {"--workers", "N", kOptions, "threads a rank (drawn)"},
    {"--json", nullptr, kCheck, "print one JSON object instead of text"},
};

constexpr FlagRow kDoctorFlags[] = {
    {"--json", nullptr, kCheck, "print one JSON object instead of text"},
};

struct CommandRow {
  const char* name;
  const char* help;
  std::span<const FlagRow> flags;
};
const CommandRow kCommands[] = {
    {"run", "one training step, forward and backward, checked", kRunFlags},
    {"verify", "random cases against the reference", kVerifyFlags},
    {"doctor", "what this machine has, and what is missing", kDoctorFlags},
};

const CommandRow* find_command(std::string_view name) {
  for (const CommandRow& row : kCommands) {
    if (row.name == name) {
      return &row;
    }
  }
  return nullptr;
}

std::vector<std::string_view> command_names() {
  std::vector<std::string_view> names;
  for (const CommandRow& row : kCommands) {
    names.emplace_back(row.name);
  }
  return names;
}

// What CLI11 did not know, the first of it.
Status unknown_argument(const std::vector<std::string>& rest, const CommandRow* command) {
  const std::string& first = rest.front();
  if (!first.starts_with("-")) {
    if (command == nullptr) {
      return unknown_word("command", first, command_names());
    }
    return Status::bad_argument(shown(first), "", "is not a flag; values follow a --flag");
  }
  const std::size_t equals = first.find('=');
  std::string value = equals == std::string::npos ? std::string{} : first.substr(equals + 1);
  if (equals == std::string::npos && rest.size() > 1 && !rest[1].starts_with("-")) {
    value = rest[1];
  }
  std::vector<std::string_view> legal = {"--help"};
  if (command == nullptr) {
    legal.emplace_back("--version");
  } else {
    for (const FlagRow& row : command->flags) {
      legal.emplace_back(row.name);
    }
  }
  const std::string name = first.substr(0, equals);
  return Status::bad_argument(shown(name), value.empty() ? "" : shown(value),
                              std::string{"is no flag of mok"} + (command != nullptr ? " " : "") +
                                  (command != nullptr ? command->name : "") + "; nearest is " +
                                  nearest_word(name, legal));
}

// CLI11's own refusals: a missing value, a flag twice, a value for a switch.
Status refused_by_parser(const CLI::ParseError& error, const std::vector<std::string>& arguments) {
  std::string text = error.what();
  std::string flag = text.substr(0, text.find_first_of(": "));
  if (!flag.starts_with("--")) {
    flag = "command line";
    for (const std::string& argument : arguments) {
      const std::string name = argument.substr(0, argument.find('='));
      if (name.starts_with("--") && text.find(name) != std::string::npos) {
        flag = name;
      }
    }
  }
  const auto names_flag = [&flag](const std::string& argument) {
    return argument == flag || argument.starts_with(flag + "=");
  };
  const auto times = std::count_if(arguments.begin(), arguments.end(), names_flag);
  if (times > 1) {
    return Status::bad_argument(flag, std::to_string(times) + " times", "must be given once");
  }
  const auto place = std::find_if(arguments.begin(), arguments.end(), names_flag);
  if (place != arguments.end() && *place != flag) {
    return Status::bad_argument(flag, shown(place->substr(flag.size() + 1)),
                                "takes no value of this form");
  }
  if (place != arguments.end()) {
    return Status::bad_argument(flag, "''", "needs a value");
  }
  return Status::bad_argument(flag, "", text);
}

struct Bound {
  const FlagRow* row;
  CLI::App* app;
  std::string text;
  bool is_set = false;
};

// The deque keeps the addresses that CLI11 writes to.
void add_flags(CLI::App& app, std::span<const FlagRow> rows, std::deque<Bound>& bound) {
  for (const FlagRow& row : rows) {
    Bound& place = bound.emplace_back(Bound{&row, &app, {}, false});
    if (row.value == nullptr) {
      app.add_flag(row.name, place.is_set, row.help)
          ->group(row.group)
          ->multi_option_policy(CLI::MultiOptionPolicy::Throw);
    } else {
      app.add_option(row.name, place.text, row.help)->type_name(row.value)->group(row.group);
    }
  }
}

}  // namespace

Result<CommandLine> parse_command_line(const std::vector<std::string>& arguments) {
  CLI::App app{"MoK: mixture-of-experts training for GPUs that share one NVLink domain", "mok"};
  app.set_version_flag("--version", "mok " + std::string{version()});
  app.set_help_flag("--help,-h", "print this");
  app.allow_extras();
  std::deque<Bound> bound;
  for (const CommandRow& row : kCommands) {
    CLI::App* command = app.add_subcommand(row.name, row.help);
    command->set_help_flag("--help,-h", "print this");
    command->allow_extras();
    add_flags(*command, row.flags, bound);
  }
  CommandLine result;
  try {
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
    app.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    result.text = app.help();
    return result;
  } catch (const CLI::CallForVersion&) {
    result.text = "mok " + std::string{version()} + "\n";
    return result;
  } catch (const CLI::ParseError& error) {
    return failure(refused_by_parser(error, arguments));
  }
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  const CommandRow* command = chosen.empty() ? nullptr : find_command(chosen.front()->get_name());
  if (std::vector<std::string> rest = app.remaining(); !rest.empty()) {
    return failure(unknown_argument(rest, command));
  }
  if (command != nullptr) {
    if (std::vector<std::string> rest = chosen.front()->remaining(); !rest.empty()) {
      return failure(unknown_argument(rest, command));
    }
  }
  if (command == nullptr) {
    return failure(Status::bad_argument("command", "none",
                                        "must be run, verify or doctor; mok --help lists them"));
  }
  if (chosen.size() > 1) {
    return failure(
        Status::bad_argument("command", chosen[1]->get_name(), "only one command at a time"));
  }
  result.command = command->name;
  for (const Bound& place : bound) {
    if (place.app == chosen.front() && place.app->count(place.row->name) > 0) {
      if (place.row->value != nullptr && place.text.starts_with("--")) {
        return failure(Status::bad_argument(place.row->name, shown(place.text),
                                            "needs a value, and this is a flag"));
      }
      if (place.row->value != nullptr || place.is_set) {
        result.flags.set(place.row->name, place.row->value == nullptr ? "true" : place.text);
      }
    }
  }
  return result;
}

}  // namespace mok::cli
