// text.cpp: splitting a text into words.
#include "io/text.hpp"

#include <new>

#include "io/file.hpp"

namespace mok::io {

namespace {

// Not <cctype>: its answers depend on the locale.
bool is_word_byte(unsigned char byte) {
  return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
         (byte >= '0' && byte <= '9') || byte >= 0x80;
}

char lower(unsigned char byte) {
  return static_cast<char>(byte >= 'A' && byte <= 'Z' ? byte + ('a' - 'A') : byte);
}

}  // namespace

std::vector<std::string> split_words(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (is_word_byte(byte)) {
      word += lower(byte);
    } else if (!word.empty()) {
      words.push_back(std::move(word));
      word.clear();
    }
  }
  if (!word.empty()) {
    words.push_back(std::move(word));
  }
  return words;
}

Result<std::vector<std::string>> read_words(const std::string& path) {
  Result<AlignedBytes> content = read_whole_file(path, kMaxTextBytes);
  if (!content) {
    return failure(content.error());
  }
  try {
    std::vector<std::string> words = split_words(as_text(content->bytes()));
    if (words.empty()) {
      return failure(Status::bad_file(path, content->bytes().empty() ? "an empty file" : "no word",
                                      "must hold at least one word"));
    }
    return words;
  } catch (const std::bad_alloc&) {
    return failure(Status::environment(path, "out of memory while splitting the text",
                                       "free memory or use a smaller file"));
  }
}

}  // namespace mok::io
