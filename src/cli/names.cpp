// names.cpp: edit distance, and numbers from text.
#include "cli/names.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <utility>

namespace mok::cli {

namespace {

// Insertions, deletions, replacements and swaps of neighbours.
std::size_t edit_distance(std::string_view from, std::string_view to) {
  std::vector<std::size_t> before_last(to.size() + 1);
  std::vector<std::size_t> last(to.size() + 1);
  std::vector<std::size_t> row(to.size() + 1);
  for (std::size_t j = 0; j < last.size(); ++j) {
    last[j] = j;
  }
  for (std::size_t i = 1; i <= from.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= to.size(); ++j) {
      const std::size_t replaced = last[j - 1] + (from[i - 1] == to[j - 1] ? 0 : 1);
      row[j] = std::min({replaced, last[j] + 1, row[j - 1] + 1});
      if (i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1]) {
        row[j] = std::min(row[j], before_last[j - 2] + 1);
      }
    }
    std::swap(before_last, last);
    std::swap(last, row);
  }
  return last.back();
}

std::string rule_text(NumberRule rule) {
  std::string text = "must be a whole number";
  if (rule.multiple != 1) {
    text += ", a multiple of " + std::to_string(rule.multiple);
  }
  text += rule.high == std::numeric_limits<std::int64_t>::max()
              ? ", at least " + std::to_string(rule.low)
              : ", from " + std::to_string(rule.low) + " to " + std::to_string(rule.high);
  return text;
}

}  // namespace

std::string nearest_word(std::string_view word, std::span<const std::string_view> legal) {
  constexpr std::size_t kLongest = 256;  // of what somebody typed; the distance is quadratic
  const std::string_view typed = word.substr(0, kLongest);
  std::string_view nearest;
  std::size_t least = std::numeric_limits<std::size_t>::max();
  for (const std::string_view candidate : legal) {
    const bool is_beginning = typed.size() >= 3 && candidate.starts_with(typed);
    const std::size_t distance = is_beginning ? 0 : edit_distance(typed, candidate);
    if (distance < least) {
      least = distance;
      nearest = candidate;
    }
  }
  return std::string{nearest};
}

Status unknown_word(const std::string& argument, std::string_view word,
                    std::span<const std::string_view> legal) {
  std::string rule = "must be ";
  for (std::size_t i = 0; i < legal.size(); ++i) {
    rule += i == 0 ? "" : i + 1 == legal.size() ? " or " : ", ";
    rule += legal[i];
  }
  return Status::bad_argument(argument, shown(word),
                              rule + "; nearest is " + nearest_word(word, legal));
}

Status check_number(const std::string& argument, std::int64_t value, NumberRule rule) {
  if (value < rule.low || value > rule.high || value % rule.multiple != 0) {
    return Status::bad_argument(argument, std::to_string(value), rule_text(rule));
  }
  return {};
}

Result<std::int64_t> parse_number(const std::string& argument, std::string_view text,
                                  NumberRule rule) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) {
    return failure(Status::bad_argument(argument, shown(text), rule_text(rule)));
  }
  if (Status status = check_number(argument, value, rule); !status.ok()) {
    return failure(std::move(status));
  }
  return value;
}

Result<std::uint64_t> parse_seed(const std::string& argument, std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) {
    return failure(
        Status::bad_argument(argument, shown(text), "must be a whole number from 0 to 2^64 - 1"));
  }
  return value;
}

std::string shown(std::string_view text) {
  constexpr std::size_t kLongest = 200;
  if (text.empty()) {
    return "''";
  }
  std::string line{text.substr(0, kLongest)};
  for (char& letter : line) {  // no line breaks, no commands to the terminal
    const auto code = static_cast<unsigned char>(letter);
    letter = code < 0x20U || code == 0x7fU ? '?' : letter;
  }
  return line + (text.size() > kLongest ? "..." : "");
}

}  // namespace mok::cli
