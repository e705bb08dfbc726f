// case.cpp: case files.
#include "cli/case.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "cli/names.hpp"
#include "io/file.hpp"
#include "io/json_strict.hpp"
#include "io/text.hpp"

namespace mok::cli {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint64_t kMaxCaseBytes = std::uint64_t{1} << 20;
constexpr int kFormat = 1;
constexpr std::int64_t kAnyNumber = std::int64_t{1} << 62;

// Lets everything pass: only the parser's own rules (syntax, duplicate keys, depth) are wanted.
class AnyJson final : public io::JsonVisitor {
 public:
  bool on_open(int /*depth*/, io::JsonContainer /*container*/) override { return true; }
  bool on_close(int /*depth*/) override { return true; }
  bool on_key(int /*depth*/, std::string&& /*key*/) override { return true; }
  bool on_string(int /*depth*/, std::string&& /*text*/) override { return true; }
  bool on_number(int /*depth*/, const io::JsonNumber& /*number*/) override { return true; }
  bool on_word(int /*depth*/, std::string_view /*word*/) override { return true; }
};

std::string routing_text(const Case& description) {
  switch (description.routing) {
    case RoutingSource::kFile: return "file:" + description.routing_path;
    case RoutingSource::kRandom: return "random";
    default: return std::string{word_of(description.routing, kRoutingWords)};
  }
}

// A key's value into a field; a Status says what is wrong with it.
struct Field {
  std::string_view key;
  std::function<Status(Case&, const Json&)> read;
};

// Paths may hold bytes that are not UTF-8.
std::string dump(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Status wrong_type(std::string_view key, const Json& value, const char* rule) {
  return Status::bad_argument(std::string{key}, shown(dump(value)), rule);
}

template <class Int>
Field number(std::string_view key, std::function<Int&(Case&)> field, std::int64_t low) {
  return {
      key, [key, field = std::move(field), low](Case& description, const Json& value) {
        if (!value.is_number_integer() ||
            (value.is_number_unsigned() &&
             value.get<std::uint64_t>() > static_cast<std::uint64_t>(kAnyNumber))) {
          return wrong_type(key, value, "must be a whole number below 2^62");
        }
        const auto found = value.get<std::int64_t>();
        constexpr std::int64_t kMost = sizeof(Int) < 8 ? (std::int64_t{1} << 30) : kAnyNumber;
        if (Status status = check_number(std::string{key}, found, {low, kMost, 1}); !status.ok()) {
          return status;
        }
        field(description) = static_cast<Int>(found);
        return Status{};
      }};
}

template <class Value, std::size_t N>
Field word(std::string_view key, std::function<Value&(Case&)> field,
           const Word<Value> (&words)[N]) {
  return {key, [key, field = std::move(field), &words](Case& description, const Json& value) {
            if (!value.is_string()) {
              return wrong_type(key, value, "must be a string");
            }
            Result<Value> found = parse_word(std::string{key}, value.get<std::string>(), words);
            if (!found) {
              return found.error();
            }
            field(description) = *found;
            return Status{};
          }};
}

Status read_tokens(Case& description, const Json& value) {
  constexpr const char* kRule = "must be a list of 1 to 65535 whole numbers, one a rank";
  if (!value.is_array() || value.empty() || value.size() > 65535) {
    return wrong_type("tokens", value, kRule);
  }
  description.tokens.clear();
  for (const Json& each : value) {
    if (!each.is_number_unsigned() ||
        each.get<std::uint64_t>() > static_cast<std::uint64_t>(kAnyNumber)) {
      return wrong_type("tokens", value, kRule);
    }
    description.tokens.push_back(each.get<std::int64_t>());
  }
  return {};
}

Status read_routing(Case& description, const Json& value) {
  if (!value.is_string()) {
    return wrong_type("routing", value, "must be a string");
  }
  const auto text = value.get<std::string>();
  if (text.starts_with("file:")) {
    description.routing = RoutingSource::kFile;
    description.routing_path = text.substr(5);
    return {};
  }
  if (text == "random") {
    description.routing = RoutingSource::kRandom;
    return {};
  }
  Result<RoutingSource> found = parse_word("routing", text, kRoutingWords);
  if (!found) {
    return found.error();
  }
  description.routing = *found;
  return {};
}

Status read_x(Case& description, const Json& value) {
  const std::string text = value.is_string() ? value.get<std::string>() : std::string{};
  if (text == "random") {
    description.x = XSource::kRandom;
    return {};
  }
  if (text.starts_with("text:") && text.size() > 5) {
    description.x = XSource::kText;
    description.text_path = text.substr(5);
    return {};
  }
  return wrong_type("x", value, "must be \"random\" or \"text:FILE\"");
}

Status read_swiglu_limit(Case& description, const Json& value) {
  if (value.is_null()) {
    description.shape.swiglu_limit.reset();
    return {};
  }
  if (!value.is_number()) {
    return wrong_type("swiglu_limit", value, "must be a number or null");
  }
  description.shape.swiglu_limit = value.get<float>();
  return {};
}

Status read_format(Case& /*description*/, const Json& value) {
  return value == Json(kFormat) ? Status{} : wrong_type("mok_case", value, "must be 1");
}

const std::vector<Field>& fields() {
  using C = Case;
  using I64 = std::int64_t;
  static const std::vector<Field> kFields = {
      {"mok_case", read_format},
      {"tokens", read_tokens},
      number<I64>(
          "hidden", [](C& c) -> I64& { return c.shape.hidden; }, 0),
      number<I64>(
          "intermediate", [](C& c) -> I64& { return c.shape.intermediate; }, 0),
      number<I64>(
          "shared_intermediate", [](C& c) -> I64& { return c.shape.shared_intermediate; }, 0),
      number<I64>(
          "experts", [](C& c) -> I64& { return c.shape.experts; }, 0),
      number<I64>(
          "topk", [](C& c) -> I64& { return c.shape.topk; }, 0),
      {"output_gate",
       [](C& c, const Json& value) {
         if (!value.is_boolean()) {
           return wrong_type("output_gate", value, "must be true or false");
         }
         c.shape.output_gate = value.get<bool>();
         return Status{};
       }},
      {"swiglu_limit", read_swiglu_limit},
      word<Dispatch>(
          "dispatch", [](C& c) -> Dispatch& { return c.options.dispatch; }, kDispatchWords),
      word<Combine>(
          "combine", [](C& c) -> Combine& { return c.options.combine; }, kCombineWords),
      word<Dispatch>(
          "dy_dispatch", [](C& c) -> Dispatch& { return c.options.dy_dispatch; }, kDispatchWords),
      word<Combine>(
          "dx_combine", [](C& c) -> Combine& { return c.options.dx_combine; }, kCombineWords),
      number<I64>(
          "ring_rows", [](C& c) -> I64& { return c.options.ring_rows; }, 0),
      number<I64>(
          "saved_rows", [](C& c) -> I64& { return c.options.saved_rows; }, -1),
      word<Save>(
          "save", [](C& c) -> Save& { return c.options.save; }, kSaveWords),
      word<Grad>(
          "grad", [](C& c) -> Grad& { return c.grad; }, kGradWords),
      number<int>(
          "workers", [](C& c) -> int& { return c.options.workers; }, 0),
      {"engine",
       [](C& c, const Json& value) {
         if (!value.is_string()) {
           return wrong_type("engine", value, "must be a string");
         }
         c.options.engine = value.get<std::string>();
         return Status{};
       }},
      number<I64>(
          "join_deadline_ms", [](C& c) -> I64& { return c.options.join_deadline_ms; }, 1),
      number<I64>(
          "progress_deadline_ms", [](C& c) -> I64& { return c.options.progress_deadline_ms; }, 1),
      number<I64>(
          "layers", [](C& c) -> I64& { return c.layers; }, 1),
      number<I64>(
          "microbatches", [](C& c) -> I64& { return c.microbatches; }, 1),
      {"seed",
       [](C& c, const Json& value) {
         if (!value.is_number_unsigned()) {
           return wrong_type("seed", value, "must be a whole number from 0 to 2^64 - 1");
         }
         c.seed = value.get<std::uint64_t>();
         return Status{};
       }},
      {"x", read_x},
      {"routing", read_routing},
      {"inputs",
       [](C& c, const Json& value) {
         if (!value.is_string()) {
           return wrong_type("inputs", value, "must be a string, the file's path");
         }
         c.inputs_path = value.get<std::string>();
         return Status{};
       }},
  };
  return kFields;
}

Status read_fields(Case& description, const Json& object) {
  if (!object.is_object() || !object.contains("mok_case")) {
    return Status::bad_argument("mok_case", "absent",
                                "must be one JSON object with the key mok_case");
  }
  for (const auto& [key, value] : object.items()) {
    const auto field = std::find_if(fields().begin(), fields().end(),
                                    [&name = key](const Field& each) { return each.key == name; });
    if (field == fields().end()) {
      std::vector<std::string_view> legal;
      for (const Field& each : fields()) {
        legal.push_back(each.key);
      }
      return Status::bad_argument("key", shown(key),
                                  "is unknown; nearest is " + nearest_word(key, legal));
    }
    if (Status status = field->read(description, value); !status.ok()) {
      return status;
    }
  }
  return {};
}

}  // namespace

std::int64_t Case::total_tokens() const {
  std::int64_t total = 0;
  for (const std::int64_t each : tokens) {
    total += each;
  }
  return total;
}

void Case::set_max_tokens() {
  shape.max_tokens = std::max<std::int64_t>(1, *std::max_element(tokens.begin(), tokens.end()));
}

std::string Case::text_file() const {
  return text_path.empty() ? std::string{io::kDefaultText} : text_path;
}

std::string case_text(const Case& description) {
  const LayerShape& shape = description.shape;
  const Options& options = description.options;
  Json json;
  json["mok_case"] = kFormat;
  json["tokens"] = description.tokens;
  json["hidden"] = shape.hidden;
  json["intermediate"] = shape.intermediate;
  json["shared_intermediate"] = shape.shared_intermediate;
  json["experts"] = shape.experts;
  json["topk"] = shape.topk;
  json["output_gate"] = shape.output_gate;
  json["swiglu_limit"] = shape.swiglu_limit ? Json(*shape.swiglu_limit) : Json(nullptr);
  json["dispatch"] = word_of(options.dispatch, kDispatchWords);
  json["combine"] = word_of(options.combine, kCombineWords);
  json["dy_dispatch"] = word_of(options.dy_dispatch, kDispatchWords);
  json["dx_combine"] = word_of(options.dx_combine, kCombineWords);
  json["ring_rows"] = options.ring_rows;
  json["saved_rows"] = options.saved_rows;
  json["save"] = word_of(options.save, kSaveWords);
  json["grad"] = word_of(description.grad, kGradWords);
  json["workers"] = options.workers;
  json["engine"] = options.engine;
  json["join_deadline_ms"] = options.join_deadline_ms;
  json["progress_deadline_ms"] = options.progress_deadline_ms;
  json["layers"] = description.layers;
  json["microbatches"] = description.microbatches;
  json["seed"] = description.seed;
  json["x"] = description.x == XSource::kRandom ? "random" : "text:" + description.text_file();
  json["routing"] = routing_text(description);
  if (!description.inputs_path.empty()) {
    json["inputs"] = description.inputs_path;
  }
  std::string text = "{";
  for (const auto& [key, value] : json.items()) {
    text += (text.size() == 1 ? "\n \"" : ",\n \"") + key + "\": " + dump(value);
  }
  return text + "\n}\n";
}

Status write_case(const Case& description, const std::string& path) {
  const std::string text = case_text(description);
  const std::array<std::span<const std::byte>, 1> pieces = {std::as_bytes(std::span(text))};
  return io::write_file_atomically(path, pieces);
}

Result<Case> parse_case(const std::string& text, const std::string& path) {
  AnyJson any;
  if (const auto problem = io::parse_json_strict(text, 4, any)) {
    return failure(Status::bad_file(path, problem->value, problem->rule));
  }
  Case description;
  const Json object = Json::parse(text, nullptr, false);
  if (Status status = read_fields(description, object); !status.ok()) {
    return failure(Status::bad_file(path, status.argument() + " " + status.value(), status.rule()));
  }
  description.set_max_tokens();
  return description;
}

Result<Case> read_case(const std::string& path) {
  Result<io::AlignedBytes> content = io::read_whole_file(path, kMaxCaseBytes);
  if (!content) {
    return failure(content.error());
  }
  return parse_case(std::string{io::as_text(content->bytes())}, path);
}

}  // namespace mok::cli
