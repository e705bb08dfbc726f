// engine.hpp: the CPU matrix engines: one tile product in bf16 with fp32 sums, per instruction set.
//
// The numeric rule. The bits of an output element depend only on its own row of a, its own row of b
// and the order of k. They do not depend on m, n, the element's place in the tile, how the operands
// lie in memory, or on where a sum is split into several calls with Accumulate::kContinue, as long
// as the calls cover k in ascending order and every split is at an even k.
//   scalar, avx2   acc = acc + a*b in fp32, one k at a time. A product of two bf16 values is exact
//                  in fp32 unless it overflows or falls below 2^-126, so the two engines agree bit
//                  for bit outside those ranges (avx2 uses fma, which never rounds the product).
//   avx512_bf16    pairs (2i, 2i+1) by VDPBF16PS: acc = acc + a[2i+1]*b[2i+1], then
//                  acc = acc + a[2i]*b[2i], each rounded to nearest; an odd k ends with +0.0 as
//                  partner. Subnormal inputs and results are taken as zero, whatever MXCSR says.
// Which NaN comes out where several meet is not part of the rule, only that it is a NaN.
// NaN and Inf stay within their own row (from a) or column (from b) of the tile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/bf16.hpp"
#include "mok/status.hpp"

namespace mok::cpu {

// Largest tile of one call.
inline constexpr int kMaxTileRows = 128;
inline constexpr int kMaxTileCols = 256;

enum class EngineKind : std::uint8_t { kScalar, kAvx2, kAvx512Bf16 };

// Which index is contiguous in memory.
enum class Major : std::uint8_t { kK, kMn };

// kK: element (row, k) at data[row * stride + k]. kMn: element (row, k) at data[k * stride + row].
// Only the elements of the tile are read, nothing between or behind them.
struct Operand {
  const Bf16* data = nullptr;
  std::int64_t stride = 0;
  Major major = Major::kK;
};

enum class Accumulate : std::uint8_t {
  kOverwrite,  // start from exactly 0; acc is never read, it may hold NaN
  kContinue,   // start from acc
};

// acc[row * acc_stride + col] = (or +=) sum over ascending k of a(row, k) * b(col, k).
struct GemmCall {
  Operand a;  // m rows
  Operand b;  // n rows
  int m = 0;  // 0 .. kMaxTileRows
  int n = 0;  // 0 .. kMaxTileCols
  std::int64_t k = 0;
  float* acc = nullptr;
  std::int64_t acc_stride = 0;  // at least n
  Accumulate accumulate = Accumulate::kOverwrite;
};

// Packing memory of one worker. Its size is a constant, so that the workspace formula can count it;
// the contents carry nothing from call to call. One thread at a time uses it.
inline constexpr std::size_t kScratchBytes = 168'640;
class Scratch {
 public:
  [[nodiscard]] std::byte* data() { return bytes_; }

 private:
  alignas(64) std::byte bytes_[kScratchBytes];
};
static_assert(sizeof(Scratch) == kScratchBytes);

struct Engine {
  EngineKind kind;
  std::string_view name;
  // Never allocates, never fails. acc and scratch are the only memory written.
  void (*gemm)(const GemmCall& call, Scratch& scratch);
};

// "scalar", "avx2", "avx512_bf16", or "auto" for the best that this CPU has. The engine lives as
// long as the process.
[[nodiscard]] Result<const Engine*> find_engine(std::string_view name);

}  // namespace mok::cpu
