// proxy_fence.cuh: makes ordinary shared-memory accesses of this thread visible to the async proxy.
#pragma once

namespace mok::cuda::ptx {

// Each thread that wrote (or read) shared memory by ordinary accesses issues this, then the CTA
// meets at a barrier; only then may wgmma or a bulk copy read (or overwrite) those bytes.
__device__ __forceinline__ void fence_proxy_async_shared_cta() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

}  // namespace mok::cuda::ptx
