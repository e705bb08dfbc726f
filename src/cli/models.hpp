// models.hpp: layer sizes of open-weight models, and the slices of them that one rank carries.
#pragma once

#include <cstdint>
#include <string_view>

namespace mok::cli {

struct Model {
  std::string_view name;
  std::int64_t hidden;
  std::int64_t intermediate;  // of the shared expert too
  std::int64_t experts;
  std::int64_t topk;
  bool has_ep64;
};
inline constexpr Model kModels[] = {
    {"kimi-k2.7", 7168, 2048, 384, 8, true},     {"glm-5.2", 6144, 2048, 256, 8, true},
    {"qwen3.5-397b", 4096, 1024, 512, 10, true}, {"deepseek-v4-pro", 7168, 3072, 384, 6, true},
    {"qwen3-30b", 2048, 768, 128, 8, false},
};

// A rank carries 1/num_parts of the experts and brings that many tokens.
struct ModelSlice {
  std::string_view name;
  std::int64_t num_parts;
  std::int64_t tokens;
};
inline constexpr ModelSlice kModelSlices[] = {{"ep8", 8, 8192}, {"ep64", 64, 2048}};

}  // namespace mok::cli
