// elementwise.hpp: row helpers around the engines. One implementation serves every engine, so their
// bits are equal everywhere. Rows may have any alignment; num may be 0; input and output do not
// overlap.
#pragma once

#include <cstdint>

#include "core/bf16.hpp"

namespace mok::cpu {

// out[i] = to_bf16(in[i]) of core/bf16.hpp.
void row_to_bf16(const float* in, Bf16* out, std::int64_t num);

// out[i] = out[i] + w * y[i]: the product is rounded, then the sum. Not an fma.
void axpy_bf16(float w, const Bf16* y, float* out, std::int64_t num);

}  // namespace mok::cpu
