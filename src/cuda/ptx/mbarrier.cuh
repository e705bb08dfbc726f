// mbarrier.cuh: barriers in shared memory for the roles of one CTA; addresses from shared_address().
#pragma once

#include <cstdint>

namespace mok::cuda::ptx {

// By one thread; the CTA then meets at a barrier before anybody arrives or waits.
__device__ __forceinline__ void mbarrier_init(std::uint32_t address, std::uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(address), "r"(arrivals) : "memory");
}

// Releases in the CTA. Pairs with: mbarrier_try_wait_parity().
__device__ __forceinline__ void mbarrier_arrive(std::uint32_t address, std::uint32_t count) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0], %1;" ::"r"(address), "r"(count)
               : "memory");
}

// True when the phase of this parity is complete (acquires in the CTA); false after a time slice.
__device__ __forceinline__ bool mbarrier_try_wait_parity(std::uint32_t address,
                                                         std::uint32_t parity) {
  std::uint32_t complete = 0;
  asm volatile(
      "{\n"
      ".reg .pred complete;\n"
      "mbarrier.try_wait.parity.shared::cta.b64 complete, [%1], %2;\n"
      "selp.u32 %0, 1, 0, complete;\n"
      "}\n"
      : "=r"(complete)
      : "r"(address), "r"(parity)
      : "memory");
  return complete != 0;
}

}  // namespace mok::cuda::ptx
