// fuzz_check.hpp: what every fuzz target demands of a refusal; a broken demand ends the program.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

#include "mok/status.hpp"

namespace mok::fuzz {

inline void require(bool condition, const char* what) {
  if (!condition) {
    std::fprintf(stderr, "broken: %s\n", what);
    std::abort();
  }
}

inline void check_refusal(const Status& status) {
  require(status.code() == Code::kBadFile, "a malformed file must be a bad_file");
  require(!status.value().empty() && !status.rule().empty(), "a refusal names value and rule");
  require(status.message().size() < 1000, "a refusal is short");
  require(status.message().find_first_of("\r\n") == std::string::npos, "a refusal is one line");
}

}  // namespace mok::fuzz
