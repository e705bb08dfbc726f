// text.hpp: the words of a text file, the real input of the default run.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "mok/status.hpp"

namespace mok::io {

// A text that every Debian machine has (package base-files).
inline constexpr std::string_view kDefaultText = "/usr/share/common-licenses/GPL-3";
inline constexpr std::uint64_t kMaxTextBytes = std::uint64_t{256} << 20;

// The words in order, ASCII letters in lower case. White space, control characters and ASCII
// punctuation separate words; bytes above 127 belong to words, so UTF-8 letters stay whole. A file
// without any word is refused. Words may hold bytes that are not UTF-8.
Result<std::vector<std::string>> read_words(const std::string& path);

// The same from memory; never fails, may be empty.
std::vector<std::string> split_words(std::string_view text);

}  // namespace mok::io
