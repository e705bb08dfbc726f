// bf16.hpp: conversions of bfloat16 and its one rounding.
#pragma once

#include <cstdint>

#include "core/host_device.hpp"
#include "mok/bf16.hpp"

namespace mok {

MOK_HD float to_float(Bf16 value) {
  return __builtin_bit_cast(float, static_cast<std::uint32_t>(value.bits) << 16);
}

// Round to nearest, ties to even; a NaN stays a (quiet) NaN.
MOK_HD Bf16 to_bf16(float value) {
  const auto bits = __builtin_bit_cast(std::uint32_t, value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) {
    return Bf16{static_cast<std::uint16_t>((bits >> 16) | 0x40U)};
  }
  return Bf16{static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16)};
}

// The value that bf16 storage of `value` would give back.
MOK_HD float round_bf16(float value) {
  return to_float(to_bf16(value));
}

}  // namespace mok
