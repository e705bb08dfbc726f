// hash_test.cpp: XXH64 against its published answers, whole and in pieces.
#include "io/hash.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "test_files.hpp"

namespace mok::io {
namespace {

using testing_files::bytes_of;

TEST(Hash, KnownAnswers) {
  EXPECT_EQ(xxh64({}), 0xef46db3751d8e999U);
  EXPECT_EQ(xxh64(bytes_of("a")), 0xd24ec4f1a98c6e5bU);
  EXPECT_EQ(xxh64(bytes_of("abc")), 0x44bc2cf5ad770999U);
  // Longer than one 32-byte stripe, so that the main loop runs.
  EXPECT_EQ(xxh64(bytes_of("Call me Ishmael. Some years ago--never mind how long precisely-")),
            0x02a2e85470d6fd96U);
}

TEST(Hash, PiecesGiveTheHashOfTheWhole) {
  std::string text;
  for (int i = 0; i < 1000; ++i) {
    text += static_cast<char>(i * 37 % 251);
  }
  const std::uint64_t whole = xxh64(bytes_of(text), 5);
  for (const std::size_t step : {1UL, 7UL, 31UL, 32UL, 33UL, 999UL, 1000UL}) {
    Xxh64Stream stream(5);
    stream.update({});
    for (std::size_t at = 0; at < text.size(); at += step) {
      stream.update(bytes_of(std::string_view(text).substr(at, step)));
    }
    EXPECT_EQ(stream.digest(), whole) << step;
    EXPECT_EQ(stream.digest(), whole) << "a digest must not end the stream";
  }
  EXPECT_NE(xxh64(bytes_of(text), 6), whole);
}

TEST(Hash, StreamSurvivesAMove) {
  Xxh64Stream first;
  first.update(bytes_of("ab"));
  Xxh64Stream second = std::move(first);
  second.update(bytes_of("c"));
  EXPECT_EQ(second.digest(), 0x44bc2cf5ad770999U);
}

TEST(Hash, TextHasAlwaysSixteenDigits) {
  EXPECT_EQ(hash_text(0x0123456789abcdefU), "xxh64:0123456789abcdef");
  EXPECT_EQ(hash_text(0), "xxh64:0000000000000000");
  EXPECT_EQ(hash_text(0xfU), "xxh64:000000000000000f");
  EXPECT_EQ(hash_text(~std::uint64_t{0}), "xxh64:ffffffffffffffff");
}

}  // namespace
}  // namespace mok::io
