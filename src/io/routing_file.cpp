// routing_file.cpp: parsing of recorded routing, line by line.
#include "io/routing_file.hpp"

#include <cmath>
#include <limits>
#include <new>
#include <optional>
#include <string_view>
#include <utility>

#include "io/file.hpp"
#include "io/json_strict.hpp"

namespace mok::io {

namespace {

constexpr int kMaxNesting = 16;  // unknown header keys may hold anything, within reason

class HeaderLine final : public JsonVisitor {
 public:
  explicit HeaderLine(RecordedRouting& out) : out_(out) {}

  bool on_open(int depth, JsonContainer container) override {
    if (depth == 0 && container != JsonContainer::kObject) {
      return refuse_line();
    }
    return depth != 1 || field_ == Field::kUnknown || refuse_type();
  }
  bool on_close(int depth) override {
    if (depth != 0) {
      return true;
    }
    if (!seen_[0] || !seen_[1] || !seen_[2] || !seen_[3]) {
      const char* missing = !seen_[0]   ? "model"
                            : !seen_[1] ? "layer"
                            : !seen_[2] ? "num_experts"
                                        : "top_k";
      return refuse(std::string{"no key '"} + missing + "'",
                    "the header must have model, layer, num_experts and top_k");
    }
    return out_.topk <= out_.num_experts ||
           refuse("top_k " + std::to_string(out_.topk) + " with num_experts " +
                      std::to_string(out_.num_experts),
                  "top_k must not be above num_experts");
  }
  bool on_key(int depth, std::string&& key) override {
    if (depth != 1) {
      return true;
    }
    field_ = key == "model"         ? Field::kModel
             : key == "layer"       ? Field::kLayer
             : key == "num_experts" ? Field::kNumExperts
             : key == "top_k"       ? Field::kTopk
                                    : Field::kUnknown;
    if (field_ != Field::kUnknown) {
      seen_[static_cast<std::size_t>(field_)] = true;
    }
    return true;
  }
  bool on_string(int depth, std::string&& text) override {
    if (depth == 1 && field_ == Field::kModel) {
      out_.model = std::move(text);
      return true;
    }
    return on_word(depth, {});
  }
  bool on_number(int depth, const JsonNumber& number) override {
    if (depth != 1 || field_ == Field::kModel || field_ == Field::kUnknown) {
      return on_word(depth, {});
    }
    const auto [name, low, high] = range();
    if (!number.whole || *number.whole < low || *number.whole > high) {
      return refuse(std::string{name} + " " + in_quotes(number.text),
                    std::string{name} + " must be a whole number from " + std::to_string(low) +
                        " to " + std::to_string(high));
    }
    switch (field_) {
      case Field::kLayer: out_.layer = *number.whole; break;
      case Field::kNumExperts: out_.num_experts = *number.whole; break;
      default: out_.topk = static_cast<int>(*number.whole); break;
    }
    return true;
  }
  bool on_word(int depth, std::string_view /*word*/) override {
    if (depth == 0) {
      return refuse_line();
    }
    return depth != 1 || field_ == Field::kUnknown || refuse_type();
  }

 private:
  enum class Field : std::uint8_t { kModel, kLayer, kNumExperts, kTopk, kUnknown };
  struct Range {
    const char* name;
    std::int64_t low;
    std::int64_t high;
  };
  [[nodiscard]] Range range() const {
    switch (field_) {
      case Field::kModel: return {"model", 0, 0};
      case Field::kLayer: return {"layer", 0, std::numeric_limits<std::int32_t>::max()};
      case Field::kNumExperts: return {"num_experts", 1, kMaxExperts};
      default: return {"top_k", 1, kMaxTopk};
    }
  }
  bool refuse_line() { return refuse("no object", "the header line must be a JSON object"); }
  bool refuse_type() {
    return refuse(std::string{range().name} + " of another type",
                  "model must be a string; layer, num_experts and top_k whole numbers");
  }

  RecordedRouting& out_;
  Field field_ = Field::kUnknown;
  bool seen_[4] = {};
};

class TokenLine final : public JsonVisitor {
 public:
  explicit TokenLine(RecordedRouting& out) : out_(out) {}

  bool on_open(int depth, JsonContainer container) override {
    const bool is_object = container == JsonContainer::kObject;
    return (depth == 0 && is_object) || (depth == 1 && !is_object) || refuse_type();
  }
  bool on_close(int depth) override {
    if (depth != 0) {
      return true;
    }
    const auto topk = static_cast<std::size_t>(out_.topk);
    if (!seen_ids_ || !seen_weights_) {
      return refuse(std::string{"no key '"} + (seen_ids_ ? "weights" : "ids") + "'",
                    "a token must have ids and weights");
    }
    if (num_ids_ != topk || num_weights_ != topk) {
      return refuse(
          std::to_string(num_ids_) + " ids and " + std::to_string(num_weights_) + " weights",
          "must have top_k = " + std::to_string(topk) + " of each");
    }
    return true;
  }
  bool on_key(int /*depth*/, std::string&& key) override {
    in_ids_ = key == "ids";
    seen_ids_ = seen_ids_ || in_ids_;
    seen_weights_ = seen_weights_ || key == "weights";
    return in_ids_ || key == "weights" ||
           refuse("the unknown key " + in_quotes(key), "a token has ids and weights only");
  }
  bool on_number(int depth, const JsonNumber& number) override {
    if (depth != 2) {
      return refuse_type();
    }
    std::size_t& count = in_ids_ ? num_ids_ : num_weights_;
    if (++count > static_cast<std::size_t>(out_.topk)) {
      return refuse(in_ids_ ? "too many ids" : "too many weights",
                    "must have top_k = " + std::to_string(out_.topk) + " of each");
    }
    return in_ids_ ? add_id(number) : add_weight(number);
  }
  bool on_string(int /*depth*/, std::string&& /*text*/) override { return refuse_type(); }
  bool on_word(int /*depth*/, std::string_view /*word*/) override { return refuse_type(); }

 private:
  bool add_id(const JsonNumber& number) {
    if (!number.whole || *number.whole < -1 || *number.whole >= out_.num_experts) {
      return refuse("the id " + in_quotes(number.text),
                    "ids must be whole numbers from -1 (no route) to " +
                        std::to_string(out_.num_experts - 1));
    }
    out_.ids.push_back(static_cast<std::int32_t>(*number.whole));
    return true;
  }
  bool add_weight(const JsonNumber& number) {
    // Compared as binary64: the conversion of a larger value would be undefined.
    if (!(std::abs(number.real) <= static_cast<double>(std::numeric_limits<float>::max()))) {
      return refuse("the weight " + in_quotes(number.text), "weights must be finite in binary32");
    }
    out_.weights.push_back(static_cast<float>(number.real));
    return true;
  }
  bool refuse_type() {
    return refuse("not ids and weights",
                  "a token must be an object with two lists of numbers, ids and weights");
  }

  RecordedRouting& out_;
  bool in_ids_ = false;
  bool seen_ids_ = false;
  bool seen_weights_ = false;
  std::size_t num_ids_ = 0;
  std::size_t num_weights_ = 0;
};

Result<RecordedRouting> parse_lines(std::string_view text, const std::string& name) {
  RecordedRouting routing;
  if (text.empty()) {
    return failure(Status::bad_file(name, "an empty file", "must have a header line and tokens"));
  }
  for (std::int64_t line_number = 1; !text.empty(); ++line_number) {
    const std::size_t length = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, length);
    text.remove_prefix(std::min(length + 1, text.size()));
    std::optional<JsonProblem> problem;
    if (line.size() > kMaxRoutingLineBytes) {
      problem =
          JsonProblem{std::to_string(line.size()) + " bytes",
                      "a line must be at most " + std::to_string(kMaxRoutingLineBytes) + " bytes"};
    } else if (line_number == 1) {
      HeaderLine visitor(routing);
      problem = parse_json_strict(line, kMaxNesting, visitor);
    } else {
      TokenLine visitor(routing);
      problem = parse_json_strict(line, kMaxNesting, visitor);
      ++routing.num_tokens;
    }
    if (problem) {
      return failure(Status::bad_file(
          name, "line " + std::to_string(line_number) + ": " + problem->value, problem->rule));
    }
  }
  if (routing.num_tokens == 0) {
    return failure(Status::bad_file(name, "a header line only", "must have at least one token"));
  }
  return routing;
}

}  // namespace

Result<RecordedRouting> parse_routing(std::span<const std::byte> bytes, const std::string& name) {
  try {
    return parse_lines(as_text(bytes), name);
  } catch (const std::bad_alloc&) {
    return failure(Status::environment(name, "out of memory while reading routing",
                                       "free memory or use a smaller file"));
  }
}

Result<RecordedRouting> read_routing_file(const std::string& path) {
  Result<AlignedBytes> content = read_whole_file(path, kMaxRoutingFileBytes);
  if (!content) {
    return failure(content.error());
  }
  return parse_routing(content->bytes(), path);
}

Status repeat_routing(const RecordedRouting& recorded, std::int64_t first_token,
                      std::span<std::int32_t> ids, std::span<float> weights) {
  const auto topk = static_cast<std::size_t>(recorded.topk);
  if (first_token < 0) {
    return Status::bad_argument("first_token", std::to_string(first_token), "must be at least 0");
  }
  if (ids.size() != weights.size() || topk == 0 || ids.size() % topk != 0) {
    return Status::bad_argument(
        "ids and weights",
        std::to_string(ids.size()) + " and " + std::to_string(weights.size()) + " elements",
        "both must be tokens x top_k");
  }
  const auto num_recorded = recorded.ids.size();
  std::size_t from = static_cast<std::size_t>(first_token % recorded.num_tokens) * topk;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    ids[i] = recorded.ids[from];
    weights[i] = recorded.weights[from];
    from = from + 1 == num_recorded ? 0 : from + 1;
  }
  return {};
}

}  // namespace mok::io
