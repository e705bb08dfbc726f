// nanosleep.cuh: suspends the thread for about this long (between none and twice of it).
#pragma once

#include <cstdint>

namespace mok::cuda::ptx {

template <std::uint32_t kNanoseconds>
__device__ __forceinline__ void nanosleep() {
  asm volatile("nanosleep.u32 %0;" ::"n"(kNanoseconds));
}

}  // namespace mok::cuda::ptx
