// scalar_engine.cpp: the engine in plain C++, for any CPU: acc = acc + a*b, one k at a time.
#include "cpu/engine/blocked_gemm.hpp"
#include "cpu/engine/engine_gemms.hpp"
#include "cpu/engine/pack_f32.hpp"

namespace mok::cpu {
namespace {

struct ScalarKernel {
  using Word = float;
  static constexpr int kRows = 4;
  static constexpr int kCols = 8;
  static constexpr int kDepth = 1;
  static constexpr int kBlock = 256;

  static void pack_a(const PanelSource& source, float* panel) { pack_f32<kRows>(source, 0, panel); }
  static void pack_b(const PanelSource& source, float* panel) { pack_f32<kCols>(source, 0, panel); }

  // Sums of different elements are independent: the compiler may put columns side by side into
  // vectors, it cannot change the order within a sum.
  static void multiply(const float* a, const float* b, int steps, const TileRef& tile) {
    float sum[kRows][kCols] = {};
    if (tile.accumulate == Accumulate::kContinue) {
      for (int r = 0; r < kRows; ++r) {
        std::copy_n(tile.acc + r * tile.stride, kCols, sum[r]);
      }
    }
    for (int s = 0; s < steps; ++s) {
      for (int r = 0; r < kRows; ++r) {
        for (int c = 0; c < kCols; ++c) {
          sum[r][c] = sum[r][c] + a[s * kRows + r] * b[s * kCols + c];
        }
      }
    }
    for (int r = 0; r < kRows; ++r) {
      std::copy_n(sum[r], kCols, tile.acc + r * tile.stride);
    }
  }
};

}  // namespace

void gemm_scalar(const GemmCall& call, Scratch& scratch) {
  blocked_gemm<ScalarKernel>(call, scratch);
}

}  // namespace mok::cpu
