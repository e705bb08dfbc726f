// bf16.hpp: bfloat16, 2 bytes: the upper half of an IEEE binary32, and its one rounding.
#pragma once

#include <cstdint>

namespace mok {

struct Bf16 {
  std::uint16_t bits = 0;
  friend constexpr bool operator==(Bf16, Bf16) = default;
};
static_assert(sizeof(Bf16) == 2);

// Exact.
[[nodiscard]] constexpr float to_float(Bf16 value) {
  return __builtin_bit_cast(float, static_cast<std::uint32_t>(value.bits) << 16);
}

// Round to nearest, ties to even; a NaN stays a (quiet) NaN.
[[nodiscard]] constexpr Bf16 to_bf16(float value) {
  const auto bits = __builtin_bit_cast(std::uint32_t, value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) {
    return Bf16{static_cast<std::uint16_t>((bits >> 16) | 0x40U)};
  }
  return Bf16{static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16)};
}

}  // namespace mok
