// register_budget.cuh: moves registers between the warpgroups of a CTA (setmaxnreg, sm_90a).
// Takes effect only in a kernel with __launch_bounds__(threads, 1) and one branch per role. All
// warps of the warpgroup execute it; the increase waits until the pool holds enough registers, so
// the sum over the warpgroups must not exceed what the kernel was launched with.
#pragma once

namespace mok::cuda::ptx {

template <int kRegisters>
inline constexpr bool kLegalRegisterBudget =
    kRegisters >= 24 && kRegisters <= 256 && kRegisters % 8 == 0;

template <int kRegisters>
__device__ __forceinline__ void setmaxnreg_inc() {
  static_assert(kLegalRegisterBudget<kRegisters>, "a multiple of 8 in [24, 256]");
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

template <int kRegisters>
__device__ __forceinline__ void setmaxnreg_dec() {
  static_assert(kLegalRegisterBudget<kRegisters>, "a multiple of 8 in [24, 256]");
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

}  // namespace mok::cuda::ptx
