// wgmma_sync.cuh: order and completion of warpgroup matrix instructions (sm_90a). All 128 threads
// of the warpgroup execute each of them together.
#pragma once

#include <cstddef>

namespace mok::cuda::ptx {

// Before the first wgmma, and again whenever other instructions wrote accumulator registers.
__device__ __forceinline__ void wgmma_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

// Closes the group of all wgmma issued since the last commit.
__device__ __forceinline__ void wgmma_commit_group() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// Returns when at most kPending of the latest groups are still running.
template <int kPending>
__device__ __forceinline__ void wgmma_wait_group() {
  static_assert(kPending >= 0 && kPending <= 7, "the instruction takes 0 to 7");
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// No instruction: after a wait, keeps the compiler from having read the accumulators before it.
template <std::size_t kCount>
__device__ __forceinline__ void pin_accumulators(float (&accumulators)[kCount]) {
#pragma unroll
  for (std::size_t i = 0; i < kCount; ++i) {
    asm volatile("" : "+f"(accumulators[i])::"memory");
  }
}

}  // namespace mok::cuda::ptx
