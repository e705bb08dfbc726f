// blocked_gemm.hpp: the loop nest that all engines share; an engine supplies packing and one tile.
//
// k is cut into blocks. For each block a's rows are packed once into panels of kRows, then each
// panel of kCols rows of b is packed and, still in the L1 cache, multiplied with every panel of a.
// Sums stay in acc between blocks: storing and reloading fp32 is exact, so the cut does not show in
// the bits. Every tile is computed at full size; one on the edge goes through a small buffer, so an
// element sees the same instructions wherever it lies.
//
// A Kernel has:
//   Word                  the unit of a packed panel
//   kRows, kCols          tile size
//   kDepth                how many k one word holds
//   kBlock                how many k one block holds, a multiple of kDepth
//   pack_a, pack_b        (const PanelSource&, Word* panel): step s of the panel starts at
//                         panel[s * kRows] (or kCols); rows and k that do not exist become zero.
//                         pack_a gets a panel in pieces of ascending k, and may spill kSpillWords
//                         words behind each piece.
//   multiply              (const Word* a, const Word* b, int steps, const TileRef&)
#pragma once

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>

#include "cpu/engine/engine.hpp"

namespace mok::cpu {

// Rows [row0, row0 + rows) and k [k0, k0 + num_k) of an operand; num_k > 0.
struct PanelSource {
  Operand operand;
  int row0;
  int rows;
  std::int64_t k0;
  int num_k;

  [[nodiscard]] const Bf16* at(int row, int k) const {
    const std::int64_t r = row0 + row;
    return operand.major == Major::kK ? operand.data + (r * operand.stride + k0 + k)
                                      : operand.data + ((k0 + k) * operand.stride + r);
  }
};

// A full tile of sums in memory.
struct TileRef {
  float* acc;
  std::int64_t stride;
  Accumulate accumulate;
};

inline constexpr int kSpillWords = 16;

template <class Kernel>
void multiply_edge(const typename Kernel::Word* a, const typename Kernel::Word* b, int steps,
                   const TileRef& tile, int rows, int cols) {
  alignas(64) float buffer[Kernel::kRows * Kernel::kCols] = {};
  if (tile.accumulate == Accumulate::kContinue) {
    for (int r = 0; r < rows; ++r) {
      std::copy_n(tile.acc + r * tile.stride, cols, buffer + r * Kernel::kCols);
    }
  }
  Kernel::multiply(a, b, steps, TileRef{buffer, Kernel::kCols, tile.accumulate});
  for (int r = 0; r < rows; ++r) {
    std::copy_n(buffer + r * Kernel::kCols, cols, tile.acc + r * tile.stride);
  }
}

template <class Kernel>
void blocked_gemm(const GemmCall& call, Scratch& scratch) {
  using Word = typename Kernel::Word;
  constexpr int kRows = Kernel::kRows;
  constexpr int kCols = Kernel::kCols;
  constexpr int kBlockSteps = Kernel::kBlock / Kernel::kDepth;
  constexpr int kMaxPanels = (kMaxTileRows + kRows - 1) / kRows;
  constexpr int kChunkK = 8;
  constexpr int kPanelWords = kRows * kBlockSteps + kSpillWords;
  constexpr int kPackedAWords = (kMaxPanels * kPanelWords + 15) / 16 * 16;
  constexpr int kPackedBWords = kCols * kBlockSteps;
  static_assert((kPackedAWords + kPackedBWords) * sizeof(Word) <= kScratchBytes);
  static_assert(Kernel::kBlock % Kernel::kDepth == 0 && kChunkK % Kernel::kDepth == 0);

  assert(call.m >= 0 && call.m <= kMaxTileRows && call.n >= 0 && call.n <= kMaxTileCols);
  assert(call.k >= 0 && call.acc_stride >= call.n);

  if (call.k == 0 && call.accumulate == Accumulate::kOverwrite) {
    for (int m = 0; m < call.m; ++m) {
      std::fill_n(call.acc + m * call.acc_stride, call.n, 0.0F);
    }
  }
  if (call.m == 0 || call.n == 0) {
    return;
  }
  Word* const packed_a = reinterpret_cast<Word*>(scratch.data());
  Word* const packed_b = packed_a + kPackedAWords;
  for (std::int64_t k0 = 0; k0 < call.k; k0 += Kernel::kBlock) {
    const int num_k = static_cast<int>(std::min<std::int64_t>(Kernel::kBlock, call.k - k0));
    const int steps = (num_k + Kernel::kDepth - 1) / Kernel::kDepth;
    const Accumulate accumulate = k0 == 0 ? call.accumulate : Accumulate::kContinue;
    // Rows contiguous in memory: few k at a time for all panels, while their lines are in the
    // cache.
    const int chunk_k = call.a.major == Major::kK ? Kernel::kBlock : kChunkK;
    for (int k = 0; k < num_k; k += chunk_k) {
      for (int m = 0, panel = 0; m < call.m; m += kRows, ++panel) {
        Kernel::pack_a(PanelSource{call.a, m, std::min(kRows, call.m - m), k0 + k,
                                   std::min(chunk_k, num_k - k)},
                       packed_a + (panel * kPanelWords + k / Kernel::kDepth * kRows));
      }
    }
    for (int n = 0; n < call.n; n += kCols) {
      const int cols = std::min(kCols, call.n - n);
      Kernel::pack_b(PanelSource{call.b, n, cols, k0, num_k}, packed_b);
      for (int m = 0, panel = 0; m < call.m; m += kRows, ++panel) {
        const int rows = std::min(kRows, call.m - m);
        const TileRef tile{call.acc + (m * call.acc_stride + n), call.acc_stride, accumulate};
        if (rows == kRows && cols == kCols) {
          Kernel::multiply(packed_a + panel * kPanelWords, packed_b, steps, tile);
        } else {
          multiply_edge<Kernel>(packed_a + panel * kPanelWords, packed_b, steps, tile, rows, cols);
        }
      }
    }
  }
}

}  // namespace mok::cpu
