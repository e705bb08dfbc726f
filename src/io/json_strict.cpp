// json_strict.cpp: event handler between nlohmann-json and a JsonVisitor.
#include "io/json_strict.hpp"

#include <nlohmann/json.hpp>
#include <unordered_set>
#include <vector>

#include "io/file.hpp"

namespace mok::io {

namespace {

using Json = nlohmann::json;

// The names of the functions are the interface that nlohmann's sax_parse() expects.
class StrictHandler {
 public:
  StrictHandler(JsonVisitor& visitor, int max_depth) : visitor_(visitor), max_depth_(max_depth) {}

  bool null() { return visitor_.on_word(depth(), "null"); }
  bool boolean(bool value) { return visitor_.on_word(depth(), value ? "true" : "false"); }
  bool number_integer(Json::number_integer_t value) {
    return visitor_.on_number(depth(), {value, static_cast<double>(value), std::to_string(value)});
  }
  bool number_unsigned(Json::number_unsigned_t value) {
    JsonNumber number{std::nullopt, static_cast<double>(value), std::to_string(value)};
    if (value <= static_cast<std::uint64_t>(INT64_MAX)) {
      number.whole = static_cast<std::int64_t>(value);
    }
    return visitor_.on_number(depth(), number);
  }
  bool number_float(Json::number_float_t value, const Json::string_t& text) {
    return visitor_.on_number(depth(), {std::nullopt, value, text});
  }
  bool string(Json::string_t& text) { return visitor_.on_string(depth(), std::move(text)); }
  bool binary(Json::binary_t& /*value*/) { return false; }  // not in JSON texts

  bool start_object(std::size_t /*num_elements*/) { return open(JsonContainer::kObject); }
  bool start_array(std::size_t /*num_elements*/) { return open(JsonContainer::kArray); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }

  bool key(Json::string_t& name) {
    if (!keys_.back().insert(name).second) {
      problem_ = {"the key " + in_quotes(name) + " twice", "a key may appear once in an object"};
      return false;
    }
    return visitor_.on_key(depth(), std::move(name));
  }

  bool parse_error(std::size_t position, const std::string& /*last_token*/,
                   const Json::exception& error) {
    // The library's own text quotes raw bytes of the file: only the position goes on.
    constexpr int kNumberOverflow = 406;
    if (error.id == kNumberOverflow) {
      problem_ = {"a number that does not fit at byte " + std::to_string(position),
                  "numbers must be finite"};
    } else {
      problem_ = {"invalid JSON at byte " + std::to_string(position),
                  "must be valid JSON in UTF-8, and complete"};
    }
    return false;
  }

  [[nodiscard]] const std::optional<JsonProblem>& problem() const { return problem_; }

 private:
  [[nodiscard]] int depth() const { return static_cast<int>(keys_.size()); }

  bool open(JsonContainer container) {
    if (depth() >= max_depth_) {
      problem_ = {"nested deeper than " + std::to_string(max_depth_) + " levels",
                  "nesting is limited to " + std::to_string(max_depth_) + " levels"};
      return false;
    }
    if (!visitor_.on_open(depth(), container)) {
      return false;
    }
    keys_.emplace_back();
    return true;
  }

  bool close() {
    keys_.pop_back();
    return visitor_.on_close(depth());
  }

  JsonVisitor& visitor_;
  int max_depth_;
  std::vector<std::unordered_set<std::string>> keys_;  // of each open container; none in an array
  std::optional<JsonProblem> problem_;
};

}  // namespace

std::optional<JsonProblem> parse_json_strict(std::string_view text, int max_depth,
                                             JsonVisitor& visitor) {
  // nlohmann-json ends at a NUL byte as at the end of the text, whatever follows, and skips a byte
  // order mark.
  if (const std::size_t nul = text.find('\0'); nul != std::string_view::npos) {
    return JsonProblem{"a NUL byte at byte " + std::to_string(nul + 1),
                       "must be valid JSON in UTF-8, and complete"};
  }
  if (text.starts_with("\xef\xbb\xbf")) {
    return JsonProblem{"a byte order mark", "must be valid JSON in UTF-8, and complete"};
  }
  StrictHandler handler(visitor, max_depth);
  if (Json::sax_parse(text.begin(), text.end(), &handler)) {
    return std::nullopt;
  }
  return handler.problem() ? handler.problem() : visitor.problem();
}

}  // namespace mok::io
