// avx2_engine.cpp: the engine for AVX2 with FMA: panels widened to fp32, tiles of 6 x 16.
//
// Fma adds the exact product, and a product of two bf16 values fits fp32: the result is that of the
// scalar engine's multiply and add.
#if defined(__x86_64__)

#include <immintrin.h>

#include "cpu/engine/blocked_gemm.hpp"
#include "cpu/engine/engine_gemms.hpp"
#include "cpu/engine/pack_f32.hpp"

#define MOK_AVX2 __attribute__((target("avx2,fma")))

namespace mok::cpu {
namespace {

MOK_AVX2 inline __m256 load8_f32(const Bf16* from) {
  const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}

// Turns 8 rows of 8 k into 8 k of 8 rows.
MOK_AVX2 inline void transpose8(__m256 (&v)[8]) {
  __m256 t[8];
#pragma GCC unroll 4
  for (int i = 0; i < 8; i += 2) {
    t[i] = _mm256_unpacklo_ps(v[i], v[i + 1]);
    t[i + 1] = _mm256_unpackhi_ps(v[i], v[i + 1]);
  }
  __m256 u[8];
#pragma GCC unroll 2
  for (int i = 0; i < 8; i += 4) {
    u[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
    u[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
    u[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
    u[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    v[i] = _mm256_permute2f128_ps(u[i], u[i + 4], 0x20);
    v[i + 4] = _mm256_permute2f128_ps(u[i], u[i + 4], 0x31);
  }
}

// k contiguous: blocks of 8 k by vectors, the rest by pack_f32. A group of fewer than 8 rows stores
// 8 floats all the same: the next k, or the panel's spill room, lies behind and is written later.
template <int kWidth>
MOK_AVX2 void pack_rows_of_k(const PanelSource& source, float* panel) {
  const int full_k = source.num_k / 8 * 8;
  for (int group = 0; group < kWidth; group += 8) {
    for (int k = 0; k < full_k; k += 8) {
      __m256 v[8];
#pragma GCC unroll 8
      for (int i = 0; i < 8; ++i) {
        const bool exists = group + i < kWidth && group + i < source.rows;
        v[i] = exists ? load8_f32(source.at(group + i, k)) : _mm256_setzero_ps();
      }
      transpose8(v);
#pragma GCC unroll 8
      for (int i = 0; i < 8; ++i) {
        _mm256_storeu_ps(panel + ((k + i) * kWidth + group), v[i]);
      }
    }
  }
  pack_f32<kWidth>(source, full_k, panel);
}

struct Avx2Kernel {
  using Word = float;
  static constexpr int kRows = 6;
  static constexpr int kCols = 16;
  static constexpr int kDepth = 1;
  static constexpr int kBlock = 256;

  static void pack_a(const PanelSource& source, float* panel) {
    if (source.operand.major == Major::kK) {
      pack_rows_of_k<kRows>(source, panel);
    } else {
      pack_f32<kRows>(source, 0, panel);
    }
  }

  MOK_AVX2 static void pack_b(const PanelSource& source, float* panel) {
    if (source.operand.major == Major::kK) {
      pack_rows_of_k<kCols>(source, panel);
    } else if (source.rows < kCols) {
      pack_f32<kCols>(source, 0, panel);
    } else {
      for (int k = 0; k < source.num_k; ++k) {
        const Bf16* const from = source.at(0, k);
        _mm256_storeu_ps(panel + k * kCols, load8_f32(from));
        _mm256_storeu_ps(panel + (k * kCols + 8), load8_f32(from + 8));
      }
    }
  }

  MOK_AVX2 static void multiply(const float* a, const float* b, int steps, const TileRef& tile) {
    __m256 left[kRows];
    __m256 right[kRows];
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) {
      if (tile.accumulate == Accumulate::kContinue) {
        left[r] = _mm256_loadu_ps(tile.acc + r * tile.stride);
        right[r] = _mm256_loadu_ps(tile.acc + (r * tile.stride + 8));
      } else {
        left[r] = _mm256_setzero_ps();
        right[r] = _mm256_setzero_ps();
      }
    }
    for (int s = 0; s < steps; ++s) {
      const __m256 b_left = _mm256_loadu_ps(b + s * kCols);
      const __m256 b_right = _mm256_loadu_ps(b + (s * kCols + 8));
#pragma GCC unroll 6
      for (int r = 0; r < kRows; ++r) {
        const __m256 a_row = _mm256_broadcast_ss(a + (s * kRows + r));
        left[r] = _mm256_fmadd_ps(a_row, b_left, left[r]);
        right[r] = _mm256_fmadd_ps(a_row, b_right, right[r]);
      }
    }
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) {
      _mm256_storeu_ps(tile.acc + r * tile.stride, left[r]);
      _mm256_storeu_ps(tile.acc + (r * tile.stride + 8), right[r]);
    }
  }
};

}  // namespace

void gemm_avx2(const GemmCall& call, Scratch& scratch) {
  blocked_gemm<Avx2Kernel>(call, scratch);
}

}  // namespace mok::cpu

#endif  // defined(__x86_64__)
