// names.hpp: the words of the command line, and which legal word a wrong one is nearest to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/case.hpp"
#include "mok/shape.hpp"
#include "mok/status.hpp"

namespace mok::cli {

// The legal word with the fewest single-letter edits from `word`, the first of several; a word of
// which `word` is the beginning comes first. Empty when there is none.
[[nodiscard]] std::string nearest_word(std::string_view word,
                                       std::span<const std::string_view> legal);

// `must be A, B or C; nearest is B`
[[nodiscard]] Status unknown_word(const std::string& argument, std::string_view word,
                                  std::span<const std::string_view> legal);

template <class Value>
struct Word {
  std::string_view text;
  Value value;
};

inline constexpr Word<Dispatch> kDispatchWords[] = {{"pull", Dispatch::kPull},
                                                    {"push", Dispatch::kPush}};
inline constexpr Word<Combine> kCombineWords[] = {
    {"scatter", Combine::kScatter}, {"push", Combine::kPush}, {"pull", Combine::kPull}};
inline constexpr Word<Save> kSaveWords[] = {{"all", Save::kAll}, {"none", Save::kNone}};
inline constexpr Word<Grad> kGradWords[] = {
    {"bf16", Grad::kBf16}, {"fp32", Grad::kFp32}, {"main-grad", Grad::kMainGrad}};
inline constexpr Word<CheckMode> kCheckWords[] = {
    {"full", CheckMode::kFull}, {"sample", CheckMode::kSample}, {"off", CheckMode::kOff}};
inline constexpr Word<RoutingSource> kRoutingWords[] = {{"router", RoutingSource::kRouter},
                                                        {"uniform", RoutingSource::kUniform},
                                                        {"zipf", RoutingSource::kZipf},
                                                        {"hot", RoutingSource::kHot}};

template <class Value, std::size_t N>
[[nodiscard]] std::string_view word_of(Value value, const Word<Value> (&words)[N]) {
  for (const Word<Value>& word : words) {
    if (word.value == value) {
      return word.text;
    }
  }
  return "unknown";
}

template <class Value, std::size_t N>
[[nodiscard]] Result<Value> parse_word(const std::string& argument, std::string_view text,
                                       const Word<Value> (&words)[N]) {
  std::vector<std::string_view> legal;
  for (const Word<Value>& word : words) {
    if (word.text == text) {
      return word.value;
    }
    legal.push_back(word.text);
  }
  return failure(unknown_word(argument, text, legal));
}

// A decimal number without sign (but '-'), point, exponent or space.
struct NumberRule {
  std::int64_t low = 0;
  std::int64_t high = 0;
  std::int64_t multiple = 1;
};
[[nodiscard]] Result<std::int64_t> parse_number(const std::string& argument, std::string_view text,
                                                NumberRule rule);
[[nodiscard]] Status check_number(const std::string& argument, std::int64_t value, NumberRule rule);

// The whole range of 64 bits without sign.
[[nodiscard]] Result<std::uint64_t> parse_seed(const std::string& argument, std::string_view text);

// What a user typed or a file says, cut to a length that fits a line, without control characters.
[[nodiscard]] std::string shown(std::string_view text);

}  // namespace mok::cli
