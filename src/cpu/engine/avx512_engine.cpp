// avx512_engine.cpp: the engine for AVX512-BF16: panels of bf16 pairs, tiles of 12 x 32.
//
// A word is the pair (k, k + 1) of one row, low half first, as VDPBF16PS takes it. A tile keeps 24
// accumulators; a step loads two vectors of b and broadcasts 12 words of a.
#if defined(__x86_64__)

#include <immintrin.h>

#include "cpu/engine/blocked_gemm.hpp"
#include "cpu/engine/engine_gemms.hpp"

#define MOK_AVX512 __attribute__((target("avx512f,avx512bf16,avx512bw,avx512vl")))

namespace mok::cpu {
namespace {

using Pair = std::uint32_t;

// The forms with a zeroing mask of all lanes compile to the plain instructions; the plain
// intrinsics start from an undefined vector, which g++ 12 reports as uninitialised.
constexpr __mmask8 kAll8 = 0xff;
constexpr __mmask16 kAll16 = 0xffff;

// The lowest `count` of 32 lanes.
inline __mmask32 first_lanes(int count) {
  return count >= 32 ? ~0U : (1U << static_cast<unsigned>(count)) - 1U;
}

// Turns 16 rows of 16 pairs into 16 steps of 16 rows.
MOK_AVX512 inline void transpose16(__m512i (&v)[16]) {
  __m512i t[16];
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_maskz_unpacklo_epi32(kAll16, v[i], v[i + 1]);
    t[i + 1] = _mm512_maskz_unpackhi_epi32(kAll16, v[i], v[i + 1]);
  }
  // Now v[4*g + j] holds, in its lane q of 128 bits, step 4*q + j of rows 4*g .. 4*g+3.
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) {
    v[i] = _mm512_maskz_unpacklo_epi64(kAll8, t[i], t[i + 2]);
    v[i + 1] = _mm512_maskz_unpackhi_epi64(kAll8, t[i], t[i + 2]);
    v[i + 2] = _mm512_maskz_unpacklo_epi64(kAll8, t[i + 1], t[i + 3]);
    v[i + 3] = _mm512_maskz_unpackhi_epi64(kAll8, t[i + 1], t[i + 3]);
  }
  // A transpose of 4 x 4 lanes across the row groups, for each j.
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    const __m512i low01 = _mm512_maskz_shuffle_i32x4(kAll16, v[j], v[j + 4], 0x44);
    const __m512i high01 = _mm512_maskz_shuffle_i32x4(kAll16, v[j], v[j + 4], 0xee);
    const __m512i low23 = _mm512_maskz_shuffle_i32x4(kAll16, v[j + 8], v[j + 12], 0x44);
    const __m512i high23 = _mm512_maskz_shuffle_i32x4(kAll16, v[j + 8], v[j + 12], 0xee);
    t[j] = _mm512_maskz_shuffle_i32x4(kAll16, low01, low23, 0x88);
    t[j + 4] = _mm512_maskz_shuffle_i32x4(kAll16, low01, low23, 0xdd);
    t[j + 8] = _mm512_maskz_shuffle_i32x4(kAll16, high01, high23, 0x88);
    t[j + 12] = _mm512_maskz_shuffle_i32x4(kAll16, high01, high23, 0xdd);
  }
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) {
    v[i] = t[i];
  }
}

// k contiguous. A panel narrower than a group of 16 rows stores 16 words all the same: the next
// step, or the panel's spill room, lies behind and is written later.
template <int kWidth>
MOK_AVX512 void pack_rows_of_k(const PanelSource& source, Pair* panel) {
  for (int group = 0; group < kWidth; group += 16) {
    for (int k = 0; k < source.num_k; k += 32) {
      const int left_k = source.num_k - k;
      const __mmask32 lanes = first_lanes(left_k);
      __m512i v[16];
#pragma GCC unroll 16
      for (int i = 0; i < 16; ++i) {
        const bool exists = group + i < kWidth && group + i < source.rows;
        v[i] = exists ? _mm512_maskz_loadu_epi16(lanes, source.at(group + i, k))
                      : _mm512_setzero_si512();
      }
      transpose16(v);
      Pair* const to = panel + (k / 2 * kWidth + group);
      if (left_k >= 32) {
#pragma GCC unroll 16
        for (int i = 0; i < 16; ++i) {
          _mm512_storeu_si512(to + i * kWidth, v[i]);
        }
      } else {
        for (int i = 0; i < (left_k + 1) / 2; ++i) {
          _mm512_storeu_si512(to + i * kWidth, v[i]);
        }
      }
    }
  }
}

// Rows contiguous: two k of one row become a pair.
MOK_AVX512 inline __m512i pair_up(__m256i even, __m256i odd) {
  return _mm512_or_si512(
      _mm512_maskz_cvtepu16_epi32(kAll16, even),
      _mm512_maskz_slli_epi32(kAll16, _mm512_maskz_cvtepu16_epi32(kAll16, odd), 16));
}

template <int kWidth>
MOK_AVX512 void pack_k_of_rows(const PanelSource& source, Pair* panel) {
  const __mmask32 lanes = first_lanes(source.rows);
  const std::int64_t stride = source.operand.stride;
  const Bf16* from = source.at(0, 0);
  for (int k = 0; k < source.num_k; k += 2, from += 2 * stride, panel += kWidth) {
    const bool has_odd = k + 1 < source.num_k;
#pragma GCC unroll 2
    for (int group = 0; group < kWidth; group += 16) {
      const auto mask = static_cast<__mmask16>(lanes >> static_cast<unsigned>(group));
      const __m256i even = _mm256_maskz_loadu_epi16(mask, from + group);
      const __m256i odd =
          has_odd ? _mm256_maskz_loadu_epi16(mask, from + stride + group) : _mm256_setzero_si256();
      _mm512_storeu_si512(panel + group, pair_up(even, odd));
    }
  }
}

struct Avx512Kernel {
  using Word = Pair;
  static constexpr int kRows = 12;
  static constexpr int kCols = 32;
  static constexpr int kDepth = 2;
  static constexpr int kBlock = 512;  // 256 to 384 were 3 to 5% slower (bench/engine_bench, Zen 4)

  static void pack_a(const PanelSource& source, Pair* panel) {
    if (source.operand.major == Major::kK) {
      pack_rows_of_k<kRows>(source, panel);
    } else {
      pack_k_of_rows<kRows>(source, panel);
    }
  }

  static void pack_b(const PanelSource& source, Pair* panel) {
    if (source.operand.major == Major::kK) {
      pack_rows_of_k<kCols>(source, panel);
    } else {
      pack_k_of_rows<kCols>(source, panel);
    }
  }

  MOK_AVX512 static void multiply(const Pair* a, const Pair* b, int steps, const TileRef& tile) {
    __m512 left[kRows];
    __m512 right[kRows];
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r) {
      if (tile.accumulate == Accumulate::kContinue) {
        left[r] = _mm512_loadu_ps(tile.acc + r * tile.stride);
        right[r] = _mm512_loadu_ps(tile.acc + (r * tile.stride + 16));
      } else {
        left[r] = _mm512_setzero_ps();
        right[r] = _mm512_setzero_ps();
      }
    }
    for (int s = 0; s < steps; ++s) {
      const auto b_left = (__m512bh)_mm512_loadu_si512(b + s * kCols);
      const auto b_right = (__m512bh)_mm512_loadu_si512(b + (s * kCols + 16));
#pragma GCC unroll 12
      for (int r = 0; r < kRows; ++r) {
        const auto a_row = (__m512bh)_mm512_set1_epi32(static_cast<int>(a[s * kRows + r]));
        left[r] = _mm512_dpbf16_ps(left[r], a_row, b_left);
        right[r] = _mm512_dpbf16_ps(right[r], a_row, b_right);
      }
    }
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r) {
      _mm512_storeu_ps(tile.acc + r * tile.stride, left[r]);
      _mm512_storeu_ps(tile.acc + (r * tile.stride + 16), right[r]);
    }
  }
};

}  // namespace

void gemm_avx512_bf16(const GemmCall& call, Scratch& scratch) {
  blocked_gemm<Avx512Kernel>(call, scratch);
}

}  // namespace mok::cpu

#endif  // defined(__x86_64__)
