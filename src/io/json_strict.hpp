// json_strict.hpp: one pass over a JSON text that refuses what a tolerant parser would let through.
//
// Refused here: syntax errors, invalid UTF-8, NUL bytes (some parsers take them for the end),
// duplicate keys at any depth, nesting beyond a limit, numbers beyond binary64. The visitor sees
// events only, no document is built: memory stays small whatever a hostile file says.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace mok::io {

// What is wrong with a text: the two last parts of a Status::bad_file().
struct JsonProblem {
  std::string value;
  std::string rule;
};

struct JsonNumber {
  std::optional<std::int64_t> whole;  // absent for fractions, exponents and what int64 cannot hold
  double real = 0.0;
  std::string text;  // for messages
};

enum class JsonContainer : std::uint8_t { kObject, kArray };

// `depth` is the number of containers that are open around the event. Each function returns true to
// go on; `return refuse(value, rule)` ends the parse with that problem.
class JsonVisitor {
 public:
  virtual ~JsonVisitor() = default;
  virtual bool on_open(int depth, JsonContainer container) = 0;
  virtual bool on_close(int depth) = 0;
  virtual bool on_key(int depth, std::string&& key) = 0;
  virtual bool on_string(int depth, std::string&& text) = 0;
  virtual bool on_number(int depth, const JsonNumber& number) = 0;
  virtual bool on_word(int depth, std::string_view word) = 0;  // true, false, null

  [[nodiscard]] const std::optional<JsonProblem>& problem() const { return problem_; }

 protected:
  bool refuse(std::string value, std::string rule) {
    problem_ = JsonProblem{std::move(value), std::move(rule)};
    return false;
  }

 private:
  std::optional<JsonProblem> problem_;
};

// The first problem of `text`, from the parser or from the visitor. May throw std::bad_alloc only.
std::optional<JsonProblem> parse_json_strict(std::string_view text, int max_depth,
                                             JsonVisitor& visitor);

}  // namespace mok::io
