// safetensors_bytes.hpp: builds safetensors files by hand, malformed ones too.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

namespace mok::io::testing_files {

// A length word (any claim), then the rest.
inline std::string with_length(std::uint64_t claimed, std::string_view rest) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) {
    bytes += static_cast<char>((claimed >> (8 * i)) & 0xffU);
  }
  return bytes.append(rest);
}

inline std::string safetensors_bytes(std::string_view header, std::string_view data) {
  return with_length(header.size(), header) + std::string{data};
}

}  // namespace mok::io::testing_files
