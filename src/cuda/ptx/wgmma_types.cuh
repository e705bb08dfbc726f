// wgmma_types.cuh: the named immediates of the matrix instruction.
#pragma once

#include <cstddef>

namespace mok::cuda::ptx {

// kZero: D = A * B, the old accumulators are ignored; kOne: D = A * B + D.
enum class ScaleD : int { kZero = 0, kOne = 1 };

// kNo: the operand lies K-major in shared memory; kYes: M-major (A) or N-major (B).
enum class Transpose : int { kNo = 0, kYes = 1 };

// Accumulator registers a thread: 64 x kN elements over the 128 threads of the warpgroup.
template <int kN>
inline constexpr std::size_t kAccumulators = static_cast<std::size_t>(kN) / 2;

}  // namespace mok::cuda::ptx
