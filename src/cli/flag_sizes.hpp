// flag_sizes.hpp: sizes that a flag and something else (a model, a file) both set must agree.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "cli/flags.hpp"
#include "cli/names.hpp"
#include "mok/status.hpp"

namespace mok::cli {

struct FlagSize {
  const char* flag;
  std::int64_t size;
};

// `owner` is what else sets the sizes, as the message names it.
[[nodiscard]] inline Status same_sizes(const Flags& flags, std::span<const FlagSize> sizes,
                                       const std::string& owner) {
  for (const FlagSize& each : sizes) {
    const std::string* text = flags.find(each.flag);
    if (text != nullptr && *text != std::to_string(each.size)) {
      return Status::bad_argument(
          each.flag, shown(*text),
          "contradicts " + owner + ", which says " + std::to_string(each.size));
    }
  }
  return {};
}

}  // namespace mok::cli
