// wgmma_facts_kernel.cuh: a plain 64 x 256 product by wgmma, in every form that the facts compare.
//
// C[64, 256] = A[64, K] * B[256, K]^T. Grid: 256 / kN; block: one warpgroup, which owns 64 x kN.
// Shared memory: 64 of K of A and of B in core-matrix layout, written by ordinary stores. Simple,
// not fast: one stage, every step waits. All loops are bounded by K.
#pragma once

#include <cstdint>

#include "core/bf16.hpp"
#include "core/host_device.hpp"
#include "cuda/mma/accumulator.hpp"
#include "cuda/mma/descriptor.hpp"
#include "cuda/ptx/global_timer.cuh"
#include "cuda/ptx/proxy_fence.cuh"
#include "cuda/ptx/register_budget.cuh"
#include "cuda/ptx/shared_address.cuh"
#include "cuda/ptx/wgmma.cuh"

namespace mok::gpu_test {

using cuda::mma::CoreMatrixLayout;
using cuda::mma::Major;
namespace ptx = cuda::ptx;

inline constexpr int kRows = 64;
inline constexpr int kColumns = 256;
inline constexpr int kK = 8192;
inline constexpr int kStepK = 16;   // K of one instruction
inline constexpr int kStageK = 64;  // K of one shared-memory stage: four steps
inline constexpr int kThreads = 128;

// Where the accumulators come from: nowhere (first wgmma with scale-d 0) or C in global memory.
enum class Start : std::uint8_t { kScaleDZero, kLoadC };

struct ProductArguments {
  const Bf16* a;  // [64, K] row-major
  const Bf16* b;  // [256, K] row-major
  float* c;       // [64, 256] row-major
  int k_begin;    // multiples of kStageK
  int k_end;
};

template <int kNumRows>
__device__ __forceinline__ void fill_stage(unsigned char* stage, CoreMatrixLayout layout,
                                           const Bf16* matrix, int first_row, int first_k) {
  for (int index = static_cast<int>(threadIdx.x); index < kNumRows * kStageK; index += kThreads) {
    const int row = index / kStageK;
    const int k = index % kStageK;
    const std::uint32_t place =
        layout.offset(static_cast<std::uint32_t>(row), static_cast<std::uint32_t>(k));
    *reinterpret_cast<std::uint16_t*>(stage + place) =
        matrix[(first_row + row) * kK + first_k + k].bits;
  }
}

MOK_HD constexpr ptx::Transpose transpose_of(Major major) {
  return major == Major::kMn ? ptx::Transpose::kYes : ptx::Transpose::kNo;
}

template <int kN, Major kMajorA, Major kMajorB>
struct Operands {
  MOK_HD_MEMBER static constexpr CoreMatrixLayout layout_a() {
    return cuda::mma::packed_layout(kMajorA, kRows);
  }
  MOK_HD_MEMBER static constexpr CoreMatrixLayout layout_b() {
    return cuda::mma::packed_layout(kMajorB, kN);
  }

  std::uint32_t address_a;
  std::uint32_t address_b;

  // One instruction: `step` counts k16 inside the stage.
  template <ptx::ScaleD kScaleD>
  __device__ __forceinline__ void multiply(float (&accumulators)[ptx::kAccumulators<kN>],
                                           std::uint32_t step) const {
    const std::uint32_t k = step * kStepK;
    ptx::wgmma_m64k16<kN, kScaleD, transpose_of(kMajorA), transpose_of(kMajorB)>(
        accumulators, cuda::mma::encode_descriptor(address_a + layout_a().offset(0, k), layout_a()),
        cuda::mma::encode_descriptor(address_b + layout_b().offset(0, k), layout_b()));
  }
};

template <int kN, Major kMajorA, Major kMajorB, Start kStart>
__global__ void __launch_bounds__(kThreads) product_kernel(ProductArguments arguments) {
  using Ops = Operands<kN, kMajorA, kMajorB>;
  static_assert(cuda::mma::is_encodable(Ops::layout_a().leading_bytes));
  static_assert(cuda::mma::is_encodable(Ops::layout_b().leading_bytes));
  __shared__ alignas(128) unsigned char stage_a[kRows * kStageK * 2];
  __shared__ alignas(128) unsigned char stage_b[kN * kStageK * 2];
  const Ops operands{ptx::shared_address(stage_a), ptx::shared_address(stage_b)};
  const int thread = static_cast<int>(threadIdx.x);
  const int first_column = static_cast<int>(blockIdx.x) * kN;

  float accumulators[ptx::kAccumulators<kN>];
#pragma unroll
  for (int i = 0; i < kN / 2; ++i) {
    if constexpr (kStart == Start::kLoadC) {
      const auto place = cuda::mma::accumulator_place(thread, i);
      accumulators[i] = arguments.c[place.row * kColumns + first_column + place.column];
    } else {
      accumulators[i] = __int_as_float(0x7fffffff);  // NaN: scale-d 0 must ignore it
    }
  }

  const auto fill = [&](int k) {
    fill_stage<kRows>(stage_a, Ops::layout_a(), arguments.a, 0, k);
    fill_stage<kN>(stage_b, Ops::layout_b(), arguments.b, first_column, k);
    ptx::fence_proxy_async_shared_cta();  // pairs with: the barrier, then wgmma's reads
    __syncthreads();
  };
  const auto finish = [&] {
    ptx::wgmma_commit_group();
    ptx::wgmma_wait_group<0>();
    ptx::pin_accumulators(accumulators);
    __syncthreads();  // pairs with: the next fill's stores
  };

  int k = arguments.k_begin;
  if constexpr (kStart == Start::kScaleDZero) {  // the first stage is peeled: no branch in the loop
    fill(k);
    ptx::wgmma_fence();
    operands.template multiply<ptx::ScaleD::kZero>(accumulators, 0);
#pragma unroll
    for (std::uint32_t step = 1; step < kStageK / kStepK; ++step) {
      operands.template multiply<ptx::ScaleD::kOne>(accumulators, step);
    }
    finish();
    k += kStageK;
  }
#pragma unroll 1
  for (; k < arguments.k_end; k += kStageK) {
    fill(k);
    ptx::wgmma_fence();
#pragma unroll
    for (std::uint32_t step = 0; step < kStageK / kStepK; ++step) {
      operands.template multiply<ptx::ScaleD::kOne>(accumulators, step);
    }
    finish();
  }

#pragma unroll
  for (int i = 0; i < kN / 2; ++i) {
    const auto place = cuda::mma::accumulator_place(thread, i);
    arguments.c[place.row * kColumns + first_column + place.column] = accumulators[i];
  }
}

// The register split of MoK's megakernel: 40 for one warpgroup, 232 for two. One block of 384.
// Words: one a thread; times: the nanosecond clock before and after.
inline constexpr int kSplitThreads = 384;
inline constexpr int kFewRegisters = 40;
inline constexpr int kManyRegisters = 232;
inline constexpr int kSplitPool = kThreads * (kFewRegisters + 2 * kManyRegisters);

MOK_HD constexpr std::uint32_t split_word(std::uint32_t thread) {
  return thread < kThreads ? thread : 1000U + 3U * thread;
}

static __global__ void __launch_bounds__(kSplitThreads, 1)
    register_split_kernel(std::uint32_t* words, std::uint64_t* times) {
  const std::uint32_t thread = threadIdx.x;
  if (thread < kThreads) {
    ptx::setmaxnreg_dec<kFewRegisters>();
    words[thread] = split_word(thread);
    if (thread == 0) {
      const std::uint64_t before = ptx::global_timer_ns();
      std::uint64_t after = before;
      for (int i = 0; i < (1 << 20) && after == before; ++i) {
        after = ptx::global_timer_ns();
      }
      times[0] = before;
      times[1] = after;
    }
  } else {
    ptx::setmaxnreg_inc<kManyRegisters>();
    words[thread] = split_word(thread);
  }
}

}  // namespace mok::gpu_test
