// request.cpp: flags, files and rules of `mok run` in one pass, before any work.
#include "cli/request.hpp"

#include <unistd.h>

#include <filesystem>
#include <utility>

#include "cli/check.hpp"
#include "cli/memory.hpp"
#include "cli/names.hpp"
#include "cli/validate.hpp"

namespace mok::cli {

namespace {

// Only a place where a file can be made or replaced; nothing is written yet.
Status check_outputs_path(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path folder = fs::path(path).has_parent_path() ? fs::path(path).parent_path() : ".";
  if (path.empty() || !fs::is_directory(folder, error)) {
    return Status::bad_file("--outputs", shown(path), "must lie in a folder that exists");
  }
  if (fs::exists(path, error) && !fs::is_regular_file(path, error)) {
    return Status::bad_file("--outputs", shown(path), "must be a regular file or a new one");
  }
  if (::access(folder.c_str(), W_OK) != 0) {
    return Status::bad_file("--outputs", shown(path), "must lie in a folder that can be written");
  }
  return {};
}

void note_input(const Sources& sources, const Flags& flags, RunRequest& request) {
  const Case& description = request.description;
  const std::string* backend = flags.find("--backend");
  if (backend == nullptr || *backend == "auto") {
    request.notes.emplace_back("backend auto is cpu: this build has no CUDA layer");
  }
  const std::int64_t drawn =
      description.total_tokens() * description.layers * description.microbatches;
  if (sources.recording && sources.recording->num_tokens < drawn) {
    request.notes.push_back("routing file holds " + std::to_string(sources.recording->num_tokens) +
                            " tokens, the run has " + std::to_string(drawn) + ": it is repeated");
  }
  const auto num_words = static_cast<std::int64_t>(sources.words.size());
  if (num_words > 0 && num_words < drawn) {
    request.notes.push_back("text holds " + std::to_string(num_words) + " words, the run has " +
                            std::to_string(drawn) + " tokens: it is repeated");
  }
}

}  // namespace

double most_forward_flop(const Case& description) {
  const LayerShape& shape = description.shape;
  const auto number = [](std::int64_t value) { return static_cast<double>(value); };
  return 6.0 * number(shape.hidden) *
         (number(shape.intermediate) * number(shape.topk) + number(shape.shared_intermediate)) *
         number(description.total_tokens()) * number(description.layers) *
         number(description.microbatches);
}

Result<RunRequest> read_request(const Flags& flags) {
  RunRequest request;
  request.format = flags.given("--json") ? Format::kJson : Format::kText;
  if (const std::string* text = flags.find("--check")) {
    Result<CheckMode> mode = parse_word("--check", *text, kCheckWords);
    if (!mode) {
      return failure(mode.error());
    }
    request.check = *mode;
  }
  Result<Case> description = case_of_flags(flags);
  if (!description) {
    return failure(description.error());
  }
  request.description = std::move(*description);
  if (const std::string* path = flags.find("--outputs")) {
    if (request.description.layers != 1 || request.description.microbatches != 1) {
      return failure(
          Status::bad_argument("--outputs", shown(*path), "needs one layer and one micro-batch"));
    }
    if (Status status = check_outputs_path(*path); !status.ok()) {
      return failure(std::move(status));
    }
    request.outputs_path = *path;
  }
  // Rules first, with the sizes that are known; files may be long.
  Status status = validate_case(request.description);
  const bool file_sets_sizes =
      !request.description.inputs_path.empty() || !request.description.routing_path.empty();
  if (!status.ok() && !file_sets_sizes) {
    return failure(std::move(status));
  }
  Result<Sources> sources = read_sources(request.description);
  if (!sources) {
    return failure(sources.error());
  }
  status = fit_to_sources(flags, *sources, request.description);
  if (status.ok()) {
    status = validate_case(request.description);
  }
  if (status.ok() && sources->inputs) {
    status = check_inputs(request.description, *sources->inputs);
  }
  if (status.ok()) {
    const CheckMode by_size = most_forward_flop(request.description) <= kMostFlopOfFullCheck
                                  ? CheckMode::kFull
                                  : CheckMode::kSample;
    status =
        check_memory(request.description, request.check.value_or(by_size), machine_memory_bytes());
  }
  if (status.ok()) {
    status = library_rules(request.description);
  }
  if (!status.ok()) {
    return failure(std::move(status));
  }
  note_input(*sources, flags, request);
  request.sources = std::move(*sources);
  return request;
}

}  // namespace mok::cli
