// text_test.cpp: words of a text, and what is refused.
#include "io/text.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "core/bf16.hpp"
#include "io/draw.hpp"
#include "test_files.hpp"

namespace mok::io {
namespace {

using testing_files::put;
using testing_files::TempFolder;
using Words = std::vector<std::string>;

TEST(Text, SplitsAndLowersWords) {
  EXPECT_EQ(split_words("The cat, the CAT--and\tit's\n2 mats."),
            (Words{"the", "cat", "the", "cat", "and", "it", "s", "2", "mats"}));
  EXPECT_EQ(split_words(std::string_view("a\0b\x7f"
                                         "c",
                                         5)),
            (Words{"a", "b", "c"}));
  EXPECT_EQ(split_words("na\xc3\xafve \xff"), (Words{"na\xc3\xafve", "\xff"}));
  EXPECT_EQ(split_words(" .,;"), Words{});
  EXPECT_EQ(split_words(""), Words{});
}

TEST(Text, DefaultTextIsThereAndRepeatsWords) {
  const Result<Words> words = read_words(std::string{kDefaultText});
  ASSERT_TRUE(words) << words.error().message();
  EXPECT_GT(words->size(), 4000U);
  EXPECT_EQ((*words)[0], "gnu");
  EXPECT_GT(std::count(words->begin(), words->end(), "the"), 100);
}

TEST(Text, EqualWordsGiveEqualStates) {
  const Words words = split_words("The cat the");
  std::vector<std::vector<Bf16>> rows(words.size(), std::vector<Bf16>(64));
  for (std::size_t i = 0; i < words.size(); ++i) {
    fill_word_state(rows[i], words[i], 11);
  }
  EXPECT_EQ(rows[0], rows[2]);
  EXPECT_NE(rows[0], rows[1]);
}

TEST(Text, RefusesFilesWithoutWords) {
  const TempFolder folder;
  put(folder.file("empty"), "");
  put(folder.file("points"), "...\n");
  const auto message = [](const std::string& path) { return read_words(path).error().message(); };
  EXPECT_EQ(message(folder.file("empty")),
            "bad_file: " + folder.file("empty") + " = an empty file: must hold at least one word");
  EXPECT_EQ(message(folder.file("points")),
            "bad_file: " + folder.file("points") + " = no word: must hold at least one word");
  EXPECT_EQ(message(folder.file("none")),
            "bad_file: " + folder.file("none") +
                " = open failed: No such file or directory: must be a file that can be read or "
                "written");
  put(folder.file("large"), "");
  std::filesystem::resize_file(folder.file("large"), kMaxTextBytes + 1);
  EXPECT_EQ(
      message(folder.file("large")),
      "bad_file: " + folder.file("large") + " = 268435457 bytes: must be at most 268435456 bytes");
}

}  // namespace
}  // namespace mok::io
