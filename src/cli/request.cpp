// request.cpp: checks and combines the flags of `mok run`.
#include "cli/request.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <span>
#include <utility>

#include "cli/check.hpp"
#include "cli/memory.hpp"
#include "cli/models.hpp"
#include "cli/names.hpp"
#include "cli/validate.hpp"

namespace mok::cli {

namespace {

// Reads flags one by one; after the first refusal the rest is skipped.
class FlagReader {
 public:
  explicit FlagReader(const Flags& flags) : flags_(flags) {}

  template <class Int>
  void number(const char* flag, NumberRule rule, Int& out) {
    if (const std::string* text = next(flag)) {
      keep(parse_number(flag, *text, rule), out);
    }
  }
  template <class Value, std::size_t N>
  void word(const char* flag, const Word<Value> (&words)[N], Value& out) {
    if (const std::string* text = next(flag)) {
      keep(parse_word(flag, *text, words), out);
    }
  }
  // The flag's text, or nullptr where it was not given or something was refused before.
  const std::string* next(const char* flag) {
    return status_.ok() ? flags_.find(flag) : nullptr;
  }
  void refuse(Status status) {
    if (status_.ok()) {
      status_ = std::move(status);
    }
  }
  [[nodiscard]] const Status& status() const { return status_; }

 private:
  template <class Value, class Out>
  void keep(Result<Value> value, Out& out) {
    if (value) {
      out = static_cast<Out>(*value);
    } else {
      refuse(value.error());
    }
  }

  const Flags& flags_;
  Status status_;
};

void read_seed(FlagReader& reader, std::uint64_t& seed) {
  if (const std::string* text = reader.next("--seed")) {
    const Result<std::uint64_t> value = parse_seed("--seed", *text);
    if (value) {
      seed = *value;
    } else {
      reader.refuse(value.error());
    }
  }
}

void read_swiglu_limit(FlagReader& reader, LayerShape& shape) {
  if (const std::string* text = reader.next("--swiglu-limit")) {
    float limit = 0.0F;
    const char* end = text->data() + text->size();
    const auto [stop, error] = std::from_chars(text->data(), end, limit);
    if (error != std::errc{} || stop != end || !(limit > 0.0F) || limit > 3.4e38F) {
      reader.refuse(Status::bad_argument("--swiglu-limit", shown(*text),
                                         "must be a finite number above 0"));
    }
    shape.swiglu_limit = limit;
  }
}

void read_input_words(FlagReader& reader, Case& description) {
  if (const std::string* text = reader.next("--x")) {
    if (text->starts_with("text:") && text->size() > 5) {
      description.text_path = text->substr(5);
    } else if (*text == "random") {
      description.x = XSource::kRandom;
    } else {
      constexpr std::array<std::string_view, 2> kLegal = {"text:FILE", "random"};
      reader.refuse(unknown_word("--x", *text, kLegal));
    }
  }
  if (const std::string* text = reader.next("--routing")) {
    if (text->starts_with("file:") && text->size() > 5) {
      description.routing = RoutingSource::kFile;
      description.routing_path = text->substr(5);
      return;
    }
    for (const Word<RoutingSource>& word : kRoutingWords) {
      if (word.text == *text) {
        description.routing = word.value;
        return;
      }
    }
    constexpr std::array<std::string_view, 5> kLegal = {"router", "uniform", "zipf", "hot",
                                                        "file:PATH"};
    reader.refuse(unknown_word("--routing", *text, kLegal));
  }
}

void read_options(FlagReader& reader, Options& options) {
  reader.word("--dispatch", kDispatchWords, options.dispatch);
  reader.word("--combine", kCombineWords, options.combine);
  reader.word("--dy-dispatch", kDispatchWords, options.dy_dispatch);
  reader.word("--dx-combine", kCombineWords, options.dx_combine);
  reader.word("--save", kSaveWords, options.save);
  if (const std::string* text = reader.next("--ring-rows"); text != nullptr && *text == "min") {
    options.ring_rows = smallest_ring_rows();
  } else {
    reader.number("--ring-rows", ring_rows_rule(), options.ring_rows);
  }
  reader.number("--saved-rows", kSavedRowsRule, options.saved_rows);
}

// Flags that a replay may change: they say where and how fast a case runs.
constexpr std::array<std::string_view, 8> kFlagsBesideCase = {
    "--check", "--json", "--outputs", "--backend", "--engine", "--workers", "--join-deadline-ms",
    "--progress-deadline-ms"};

void read_place(FlagReader& reader, Options& options) {
  if (const std::string* text = reader.next("--backend")) {
    constexpr std::array<std::string_view, 3> kLegal = {"auto", "cpu", "cuda"};
    if (*text == "cuda") {
      reader.refuse(Status::environment("--backend", "cuda",
                                        "this build has no CUDA layer; use --backend cpu"));
    } else if (std::find(kLegal.begin(), kLegal.end(), *text) == kLegal.end()) {
      reader.refuse(unknown_word("--backend", *text, kLegal));
    }
  }
  if (const std::string* text = reader.next("--engine")) {
    options.engine = *text;
  }
  reader.number("--workers", kWorkersRule, options.workers);
  reader.number("--join-deadline-ms", kDeadlineRule, options.join_deadline_ms);
  reader.number("--progress-deadline-ms", kDeadlineRule, options.progress_deadline_ms);
}

struct ModelCase {
  const Model* model = nullptr;
  const ModelSlice* slice = nullptr;
};

Result<ModelCase> find_model(const std::string& text) {
  std::vector<std::string> names;
  for (const Model& model : kModels) {
    for (const ModelSlice& slice : kModelSlices) {
      if (slice.name == "ep64" && !model.has_ep64) {
        continue;
      }
      names.push_back(std::string{model.name} + "/" + std::string{slice.name});
      if (names.back() == text) {
        return ModelCase{&model, &slice};
      }
    }
  }
  const std::vector<std::string_view> legal(names.begin(), names.end());
  return failure(unknown_word("--model", text, legal));
}

// A size that both a flag and something else set.
Status same_size(const Flags& flags, const char* flag, std::int64_t size, const std::string& owner) {
  const std::string* text = flags.find(flag);
  if (text == nullptr || *text == std::to_string(size)) {
    return {};
  }
  return Status::bad_argument(flag, shown(*text),
                              "contradicts " + owner + ", which says " + std::to_string(size));
}

struct FlagSize {
  const char* flag;
  std::int64_t size;
};
Status same_sizes(const Flags& flags, std::span<const FlagSize> sizes, const std::string& owner) {
  for (const FlagSize& each : sizes) {
    if (Status status = same_size(flags, each.flag, each.size, owner); !status.ok()) {
      return status;
    }
  }
  return {};
}

Status apply_model(const Flags& flags, std::int64_t num_ranks, Case& description,
                   std::int64_t& tokens_each) {
  const std::string* text = flags.find("--model");
  if (text == nullptr) {
    return {};
  }
  const Result<ModelCase> found = find_model(*text);
  if (!found) {
    return found.error();
  }
  LayerShape& shape = description.shape;
  const Model& model = *found->model;
  shape.hidden = model.hidden;
  shape.intermediate = model.intermediate;
  shape.topk = model.topk;
  shape.experts = model.experts / found->slice->num_parts * num_ranks;
  if (shape.topk > shape.experts) {
    return Status::bad_argument("--model", *text,
                                "has " + std::to_string(shape.experts) + " experts on " +
                                    std::to_string(num_ranks) + " ranks but --topk " +
                                    std::to_string(shape.topk) + ": use more --ranks");
  }
  tokens_each = found->slice->tokens;
  const FlagSize sizes[] = {{"--hidden", shape.hidden},
                            {"--intermediate", shape.intermediate},
                            {"--experts", shape.experts},
                            {"--topk", shape.topk}};
  return same_sizes(flags, sizes, "--model " + *text);
}

// `one` number for all ranks or a list of num_ranks.
Status read_tokens(const std::string& text, std::int64_t num_ranks,
                   std::vector<std::int64_t>& tokens) {
  std::vector<std::int64_t> found;
  std::string_view rest = text;
  for (bool more = true; more;) {
    const std::size_t comma = rest.find(',');
    const Result<std::int64_t> value =
        parse_number("--tokens", rest.substr(0, comma), kTokensRule);
    if (!value) {
      return Status::bad_argument("--tokens", shown(text), value.error().rule());
    }
    found.push_back(*value);
    more = comma != std::string_view::npos;
    rest.remove_prefix(more ? comma + 1 : rest.size());
  }
  if (found.size() == 1) {
    found.assign(static_cast<std::size_t>(num_ranks), found.front());
  }
  if (found.size() != static_cast<std::size_t>(num_ranks)) {
    return Status::bad_argument(
        "--tokens", shown(text),
        "must be one number or one for each of --ranks " + std::to_string(num_ranks));
  }
  tokens = std::move(found);
  return {};
}

Status refuse_beside(const Flags& flags, const char* owner,
                     std::initializer_list<const char*> refused) {
  for (const char* flag : refused) {
    if (const std::string* text = flags.find(flag)) {
      return Status::bad_argument(flag, shown(*text),
                                  std::string{"contradicts "} + owner + ", which sets it");
    }
  }
  return {};
}

Result<Case> replayed_case(const Flags& flags, const std::string& path) {
  for (const char* flag :
       {"--ranks", "--tokens", "--hidden", "--intermediate", "--shared-intermediate",
        "--output-gate", "--swiglu-limit", "--experts", "--topk", "--model", "--layers",
        "--microbatches", "--x", "--routing", "--inputs", "--seed", "--ring-rows", "--saved-rows",
        "--dispatch", "--combine", "--dy-dispatch", "--dx-combine", "--save", "--grad"}) {
    if (Status status = refuse_beside(flags, "--case", {flag}); !status.ok()) {
      return failure(std::move(status));
    }
  }
  Result<Case> description = read_case(path);
  if (!description) {
    return failure(in_flag("--case", path, description.error()));
  }
  FlagReader reader(flags);
  read_place(reader, description->options);
  if (!reader.status().ok()) {
    return failure(reader.status());
  }
  return description;
}

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
                            " tokens, the run has " + std::to_string(drawn) +
                            ": it is repeated");
  }
  const auto num_words = static_cast<std::int64_t>(sources.words.size());
  if (num_words > 0 && num_words < drawn) {
    request.notes.push_back("text holds " + std::to_string(num_words) +
                            " words, the run has " + std::to_string(drawn) +
                            " tokens: it is repeated");
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

Result<Case> case_of_flags(const Flags& flags) {
  if (const std::string* path = flags.find("--case")) {
    return replayed_case(flags, *path);
  }
  Case description;
  LayerShape& shape = description.shape;
  FlagReader reader(flags);
  std::int64_t num_ranks = description.num_ranks();
  std::int64_t tokens_each = description.tokens.front();
  reader.number("--ranks", kRanksRule, num_ranks);
  reader.number("--hidden", kMatrixRule, shape.hidden);
  reader.number("--intermediate", kMatrixRule, shape.intermediate);
  reader.number("--experts", kExpertsRule, shape.experts);
  reader.number("--topk", kTopkRule, shape.topk);
  if (reader.status().ok()) {
    reader.refuse(apply_model(flags, num_ranks, description, tokens_each));
  }
  shape.shared_intermediate = shape.intermediate;
  reader.number("--shared-intermediate", kSharedRule, shape.shared_intermediate);
  shape.output_gate = flags.given("--output-gate");
  read_swiglu_limit(reader, shape);
  reader.number("--layers", kLayersRule, description.layers);
  reader.number("--microbatches", kLayersRule, description.microbatches);
  read_seed(reader, description.seed);
  read_options(reader, description.options);
  reader.word("--grad", kGradWords, description.grad);
  read_input_words(reader, description);
  read_place(reader, description.options);
  if (reader.status().ok()) {
    description.tokens.assign(static_cast<std::size_t>(num_ranks), tokens_each);
    if (const std::string* text = flags.find("--tokens")) {
      reader.refuse(read_tokens(*text, num_ranks, description.tokens));
    }
  }
  if (const std::string* path = reader.next("--inputs")) {
    description.inputs_path = *path;
    reader.refuse(refuse_beside(flags, "--inputs", {"--model", "--x", "--routing"}));
  }
  for (const char* file : {"--inputs", "--outputs"}) {
    for (const auto& [flag, count] : {FlagSize{"--layers", description.layers},
                                      FlagSize{"--microbatches", description.microbatches}}) {
      if (reader.next(file) != nullptr && count != 1) {
        reader.refuse(Status::bad_argument(flag, std::to_string(count),
                                           std::string{"contradicts "} + file +
                                               ", which needs 1"));
      }
    }
  }
  if (!reader.status().ok()) {
    return failure(reader.status());
  }
  description.set_max_tokens();
  return description;
}

Status fit_to_sources(const Flags& flags, const Sources& sources, Case& description) {
  LayerShape& shape = description.shape;
  if (sources.recording) {
    const io::RecordedRouting& recording = *sources.recording;
    if (flags.given("--case") &&
        (shape.experts != recording.num_experts || shape.topk != recording.topk)) {
      return Status::bad_argument("--case", "other experts or topk than its routing file",
                                  "must agree with the file's header");
    }
    const FlagSize sizes[] = {{"--experts", recording.num_experts}, {"--topk", recording.topk}};
    const std::string owner = "--routing file:" + shown(description.routing_path);
    if (const std::string* model = flags.find("--model");
        model != nullptr &&
        (shape.experts != recording.num_experts || shape.topk != recording.topk)) {
      return Status::bad_argument("--model", *model, "contradicts " + owner + " with " +
                                                         std::to_string(recording.num_experts) +
                                                         " experts, top-" +
                                                         std::to_string(recording.topk));
    }
    if (Status status = same_sizes(flags, sizes, owner); !status.ok()) {
      return status;
    }
    shape.experts = recording.num_experts;
    shape.topk = recording.topk;
  }
  if (!sources.inputs) {
    return {};
  }
  const std::string owner = "--inputs " + shown(description.inputs_path);
  Result<LayerShape> found = shape_of_inputs(*sources.inputs, description.inputs_path);
  if (!found) {
    return found.error();
  }
  const FlagSize sizes[] = {{"--hidden", found->hidden},
                            {"--intermediate", found->intermediate},
                            {"--shared-intermediate", found->shared_intermediate},
                            {"--experts", found->experts},
                            {"--topk", found->topk}};
  if (Status status = same_sizes(flags, sizes, owner); !status.ok()) {
    return status;
  }
  if (flags.given("--output-gate") && !found->output_gate) {
    return Status::bad_argument("--output-gate", "given",
                                "contradicts " + owner + ", which has no shared_output_gate");
  }
  const std::int64_t num_tokens = tokens_of_inputs(*sources.inputs);
  if (flags.given("--tokens") || flags.given("--case")) {
    if (description.total_tokens() != num_tokens) {
      return Status::bad_argument("--tokens", std::to_string(description.total_tokens()) + " in all",
                                  "contradicts " + owner + ", which has " +
                                      std::to_string(num_tokens));
    }
  } else {
    const std::int64_t num_ranks = description.num_ranks();
    for (std::int64_t rank = 0; rank < num_ranks; ++rank) {
      description.tokens[static_cast<std::size_t>(rank)] =
          num_tokens / num_ranks + (rank < num_tokens % num_ranks ? 1 : 0);
    }
  }
  found->swiglu_limit = shape.swiglu_limit;
  shape = *found;
  description.set_max_tokens();
  return {};
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
      return failure(Status::bad_argument("--outputs", shown(*path),
                                          "needs one layer and one micro-batch"));
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
    status = check_memory(request.description, request.check.value_or(by_size),
                          machine_memory_bytes());
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
