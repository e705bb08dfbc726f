// names_test.cpp: nearest words and numbers of the command line.
#include "cli/names.hpp"

#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <string>

namespace mok::cli {
namespace {

constexpr std::array<std::string_view, 4> kLegal = {"--hidden", "--intermediate", "--ring-rows",
                                                    "--ranks"};

TEST(NearestWord, HasTheFewestEdits) {
  EXPECT_EQ(nearest_word("--hiden", kLegal), "--hidden");
  EXPECT_EQ(nearest_word("--ring_rows", kLegal), "--ring-rows");
  EXPECT_EQ(nearest_word("--rank", kLegal), "--ranks");
  EXPECT_EQ(nearest_word("--inter", kLegal), "--intermediate") << "a beginning counts as near";
  EXPECT_EQ(nearest_word("x", std::span<const std::string_view>{}), "");
  EXPECT_FALSE(nearest_word(std::string(1'000'000, 'h'), kLegal).empty());
}

TEST(UnknownWord, NamesTheLegalOnesAndTheNearest) {
  constexpr std::array<std::string_view, 3> kWords = {"scatter", "push", "pull"};
  const Status status = unknown_word("--combine", "puhs", kWords);
  EXPECT_EQ(status.argument(), "--combine");
  EXPECT_EQ(status.value(), "puhs");
  EXPECT_EQ(status.rule(), "must be scatter, push or pull; nearest is push");
}

struct NumberCase {
  const char* text;
  bool is_legal;
};

TEST(ParseNumber, TakesDecimalNumbersInTheRangeOnly) {
  constexpr NumberRule kRule{8, 1024, 8};
  for (const NumberCase& each : {NumberCase{"8", true},
                                 {"1024", true},
                                 {"64", true},
                                 {"0", false},
                                 {"-8", false},
                                 {"12", false},
                                 {"1032", false},
                                 {"", false},
                                 {" 64", false},
                                 {"64 ", false},
                                 {"64.0", false},
                                 {"0x40", false},
                                 {"1e2", false},
                                 {"+64", false},
                                 {"99999999999999999999999", false},
                                 {"64k", false}}) {
    const Result<std::int64_t> value = parse_number("--hidden", each.text, kRule);
    EXPECT_EQ(value.has_value(), each.is_legal) << "'" << each.text << "'";
    if (!value) {
      EXPECT_EQ(value.error().argument(), "--hidden");
      EXPECT_NE(value.error().rule().find("multiple of 8"), std::string::npos);
    }
  }
}

TEST(ParseSeed, TakesAllOf64Bits) {
  EXPECT_EQ(parse_seed("--seed", "18446744073709551615").value_or(0),
            std::numeric_limits<std::uint64_t>::max());
  EXPECT_FALSE(parse_seed("--seed", "18446744073709551616").has_value());
  EXPECT_FALSE(parse_seed("--seed", "-1").has_value());
  EXPECT_FALSE(parse_seed("--seed", "").has_value());
}

TEST(Shown, CutsLongText) {
  EXPECT_EQ(shown(""), "''");
  EXPECT_EQ(shown("abc"), "abc");
  EXPECT_LT(shown(std::string(100'000, 'a')).size(), 300U);
}

}  // namespace
}  // namespace mok::cli
