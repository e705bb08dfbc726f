// global_words.cuh: loads, stores and adds of shared words, with the order and scope that each names.
// .gpu: among the CTAs of one GPU; .sys: among GPUs and the host.
#pragma once

#include <cstdint>

namespace mok::cuda::ptx {

__device__ __forceinline__ std::uint32_t ld_acquire_gpu(const std::uint32_t* word) {
  std::uint32_t value = 0;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
  return value;
}

__device__ __forceinline__ std::uint64_t ld_acquire_sys(const std::uint64_t* word) {
  std::uint64_t value = 0;
  asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
  return value;
}

__device__ __forceinline__ std::uint32_t ld_relaxed_gpu(const std::uint32_t* word) {
  std::uint32_t value = 0;
  asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(word));
  return value;
}

__device__ __forceinline__ std::uint32_t ld_relaxed_sys(const std::uint32_t* word) {
  std::uint32_t value = 0;
  asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(word));
  return value;
}

__device__ __forceinline__ void st_release_sys(std::uint64_t* word, std::uint64_t value) {
  asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
}

__device__ __forceinline__ void st_release_sys(std::uint32_t* word, std::uint32_t value) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
}

__device__ __forceinline__ std::uint32_t atom_add_acq_rel_gpu(std::uint32_t* word,
                                                              std::uint32_t amount) {
  std::uint32_t before = 0;
  asm volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], %2;"
               : "=r"(before)
               : "l"(word), "r"(amount)
               : "memory");
  return before;
}

__device__ __forceinline__ std::uint32_t atom_add_relaxed_gpu(std::uint32_t* word,
                                                              std::uint32_t amount) {
  std::uint32_t before = 0;
  asm volatile("atom.add.relaxed.gpu.global.u32 %0, [%1], %2;"
               : "=r"(before)
               : "l"(word), "r"(amount));
  return before;
}

// The value before; the word becomes `desired` where it was `expected`.
__device__ __forceinline__ std::uint32_t atom_cas_acq_rel_sys(std::uint32_t* word,
                                                              std::uint32_t expected,
                                                              std::uint32_t desired) {
  std::uint32_t before = 0;
  asm volatile("atom.cas.acq_rel.sys.global.b32 %0, [%1], %2, %3;"
               : "=r"(before)
               : "l"(word), "r"(expected), "r"(desired)
               : "memory");
  return before;
}

}  // namespace mok::cuda::ptx
