// global_timer.cuh: the GPU's nanosecond clock, for deadlines. Never read it beside wgmma: ptxas
// then serialises the matrix instructions.
#pragma once

#include <cstdint>

namespace mok::cuda::ptx {

__device__ __forceinline__ std::uint64_t global_timer_ns() {
  std::uint64_t now_ns = 0;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now_ns)::"memory");
  return now_ns;
}

}  // namespace mok::cuda::ptx
