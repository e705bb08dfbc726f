// bf16.hpp: bfloat16 arithmetic inside MoK: the public conversions and the rounding of a value.
//
// to_float and to_bf16 are constexpr, so device code may call them (--expt-relaxed-constexpr).
#pragma once

#include "core/host_device.hpp"
#include "mok/bf16.hpp"

namespace mok {

// The value that bf16 storage of `value` would give back.
MOK_HD float round_bf16(float value) {
  return to_float(to_bf16(value));
}

}  // namespace mok
