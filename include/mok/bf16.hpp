// bf16.hpp: bfloat16 storage, 2 bytes: the upper half of an IEEE binary32.
#pragma once

#include <cstdint>

namespace mok {

struct Bf16 {
  std::uint16_t bits = 0;
  friend constexpr bool operator==(Bf16, Bf16) = default;
};
static_assert(sizeof(Bf16) == 2);

}  // namespace mok
