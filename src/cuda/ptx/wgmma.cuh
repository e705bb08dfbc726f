// wgmma.cuh: the one matrix instruction of MoK on sm_90a, chosen by its width N.
#pragma once

#include <cstdint>

#include "cuda/ptx/wgmma_m64n128k16.cuh"
#include "cuda/ptx/wgmma_m64n256k16.cuh"
#include "cuda/ptx/wgmma_m64n64k16.cuh"
#include "cuda/ptx/wgmma_sync.cuh"
#include "cuda/ptx/wgmma_types.cuh"

namespace mok::cuda::ptx {

// 64 x kN x 16, BF16 operands from shared memory, fp32 accumulators.
template <int kN, ScaleD kScaleD, Transpose kTransposeA, Transpose kTransposeB>
__device__ __forceinline__ void wgmma_m64k16(float (&d)[kAccumulators<kN>],
                                             std::uint64_t a_descriptor,
                                             std::uint64_t b_descriptor) {
  static_assert(kN == 64 || kN == 128 || kN == 256, "N is 64, 128 or 256");
  if constexpr (kN == 64) {
    wgmma_m64n64k16<kScaleD, kTransposeA, kTransposeB>(d, a_descriptor, b_descriptor);
  } else if constexpr (kN == 128) {
    wgmma_m64n128k16<kScaleD, kTransposeA, kTransposeB>(d, a_descriptor, b_descriptor);
  } else {
    wgmma_m64n256k16<kScaleD, kTransposeA, kTransposeB>(d, a_descriptor, b_descriptor);
  }
}

}  // namespace mok::cuda::ptx
