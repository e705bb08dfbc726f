// shared_address.cuh: the 32-bit shared-window address of a pointer into shared memory.
#pragma once

#include <cstdint>

namespace mok::cuda::ptx {

__device__ __forceinline__ std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

}  // namespace mok::cuda::ptx
