// pack_f32.hpp: packing of a bf16 panel into fp32, in plain C++: the scalar engine's, and what the
// AVX2 engine uses on edges.
#pragma once

#include "cpu/engine/blocked_gemm.hpp"

namespace mok::cpu {

// Packs k [first_k, num_k) of the panel: element (row, k) to panel[k * kWidth + row]. Rows beyond
// source.rows become zero.
template <int kWidth>
void pack_f32(const PanelSource& source, int first_k, float* panel) {
  if (source.operand.major == Major::kK) {
    for (int row = 0; row < source.rows; ++row) {
      const Bf16* const from = source.at(row, 0);
      for (int k = first_k; k < source.num_k; ++k) {
        panel[k * kWidth + row] = to_float(from[k]);
      }
    }
  } else {
    for (int k = first_k; k < source.num_k; ++k) {
      const Bf16* const from = source.at(0, k);
      for (int row = 0; row < source.rows; ++row) {
        panel[k * kWidth + row] = to_float(from[row]);
      }
    }
  }
  if (source.rows < kWidth) {
    for (int k = first_k; k < source.num_k; ++k) {
      for (int row = source.rows; row < kWidth; ++row) {
        panel[k * kWidth + row] = 0.0F;
      }
    }
  }
}

}  // namespace mok::cpu
