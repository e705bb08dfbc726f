// safetensors_header.hpp: the header of a safetensors file as a checked table (internal to io).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/json_strict.hpp"
#include "io/safetensors.hpp"

namespace mok::io {

struct HeaderEntry {
  std::string name;
  std::string dtype_text;
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0;  // first byte and end in the data
  std::uint64_t end = 0;
};

struct HeaderTable {
  std::vector<HeaderEntry> entries;
  Metadata metadata;
};

[[nodiscard]] Dtype dtype_from_text(std::string_view text);

// Bits of one element of every dtype that the format defines; nothing for an unknown name.
[[nodiscard]] std::optional<std::uint64_t> dtype_bits(std::string_view text);

// Elements of a shape. Nothing if the product of its sizes other than 0 exceeds int64: a later
// stride computation must not overflow because some other size is 0.
[[nodiscard]] std::optional<std::uint64_t> num_elements(const std::vector<std::int64_t>& shape);

[[nodiscard]] std::string shape_text(std::span<const std::int64_t> shape);

// Fills `table` and proves that its entries cover `data_bytes` bytes exactly, without overlap.
[[nodiscard]] std::optional<JsonProblem> parse_header(std::string_view header,
                                                      std::uint64_t data_bytes, HeaderTable& table);

}  // namespace mok::io
