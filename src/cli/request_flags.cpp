// request_flags.cpp: the case that the flags of `mok run` describe, before any file is opened.
#include <algorithm>
#include <array>
#include <charconv>
#include <initializer_list>
#include <utility>

#include "cli/flag_reader.hpp"
#include "cli/flag_sizes.hpp"
#include "cli/models.hpp"
#include "cli/names.hpp"
#include "cli/request.hpp"
#include "cli/validate.hpp"

namespace mok::cli {

namespace {

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
      reader.refuse(
          Status::bad_argument("--swiglu-limit", shown(*text), "must be a finite number above 0"));
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

// Flags that a replay may change too: they say where and how fast a case runs.
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
    const Result<std::int64_t> value = parse_number("--tokens", rest.substr(0, comma), kTokensRule);
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
  for (
      const char* flag :
      {"--ranks",       "--tokens",       "--hidden",     "--intermediate", "--shared-intermediate",
       "--output-gate", "--swiglu-limit", "--experts",    "--topk",         "--model",
       "--layers",      "--microbatches", "--x",          "--routing",      "--inputs",
       "--seed",        "--ring-rows",    "--saved-rows", "--dispatch",     "--combine",
       "--dy-dispatch", "--dx-combine",   "--save",       "--grad"}) {
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

}  // namespace

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
    if (path->empty()) {
      reader.refuse(Status::bad_argument("--inputs", "''", "must name a file"));
    }
    reader.refuse(refuse_beside(flags, "--inputs", {"--model", "--x", "--routing"}));
  }
  for (const char* file : {"--inputs", "--outputs"}) {
    for (const auto& [flag, count] : {FlagSize{"--layers", description.layers},
                                      FlagSize{"--microbatches", description.microbatches}}) {
      if (reader.next(file) != nullptr && count != 1) {
        reader.refuse(Status::bad_argument(flag, std::to_string(count),
                                           std::string{"contradicts "} + file + ", which needs 1"));
      }
    }
  }
  if (!reader.status().ok()) {
    return failure(reader.status());
  }
  description.set_max_tokens();
  return description;
}

}  // namespace mok::cli
