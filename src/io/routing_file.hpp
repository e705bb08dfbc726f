// routing_file.hpp: routing decisions recorded from a real model, one token a line.
//
// First line: {"model": text, "layer": n, "num_experts": E, "top_k": k}, other keys are ignored;
// each further line: {"ids": [k expert ids], "weights": [k numbers]}. The id -1 means no route.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "mok/status.hpp"

namespace mok::io {

inline constexpr std::uint64_t kMaxRoutingFileBytes = std::uint64_t{1} << 30;
inline constexpr std::size_t kMaxRoutingLineBytes = std::size_t{1} << 20;
inline constexpr std::int64_t kMaxExperts = std::int64_t{1} << 20;
inline constexpr std::int64_t kMaxTopk = 32;

struct RecordedRouting {
  std::string model;
  std::int64_t layer = 0;
  std::int64_t num_experts = 0;
  int topk = 0;
  std::vector<std::int32_t> ids;  // [tokens,k]
  std::vector<float> weights;     // [tokens,k]
  std::int64_t num_tokens = 0;
};

// Every refusal is one Status::bad_file(path, value, rule); the value begins with "line N".
Result<RecordedRouting> read_routing_file(const std::string& path);

// The same from memory; `name` stands for the path in messages.
Result<RecordedRouting> parse_routing(std::span<const std::byte> bytes, const std::string& name);

// Tokens [first_token, first_token + n) of the recording repeated without end; n follows from the
// sizes of ids and weights, both n * topk.
[[nodiscard]] Status repeat_routing(const RecordedRouting& recorded, std::int64_t first_token,
                                    std::span<std::int32_t> ids, std::span<float> weights);

}  // namespace mok::io
