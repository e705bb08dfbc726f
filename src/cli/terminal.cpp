// terminal.cpp: writing to stderr.
#include "cli/terminal.hpp"

#include <cstdio>

namespace mok::cli {

void print_err(std::string_view text) {
  // There is nobody left to tell when this fails.
  [[maybe_unused]] const std::size_t written = std::fwrite(text.data(), 1, text.size(), stderr);
}

}  // namespace mok::cli
