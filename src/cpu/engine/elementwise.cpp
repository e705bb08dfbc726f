// elementwise.cpp: plain loops that the compiler turns into vectors (-O3, -ffp-contract=off).
#include "cpu/engine/elementwise.hpp"

namespace mok::cpu {

void row_to_bf16(const float* __restrict in, Bf16* __restrict out, std::int64_t num) {
  for (std::int64_t i = 0; i < num; ++i) {
    out[i] = to_bf16(in[i]);
  }
}

void axpy_bf16(float w, const Bf16* __restrict y, float* __restrict out, std::int64_t num) {
  for (std::int64_t i = 0; i < num; ++i) {
    const float product = w * to_float(y[i]);
    out[i] = out[i] + product;
  }
}

}  // namespace mok::cpu
