// mbarrier_pipe.cuh: Pipe of the GPU: mbarriers in shared memory.
//
// Who arrives: a thread that plays a role alone, or one lane for its whole warp. Waits are bare loops;
// with a guard they also end at a deadline, far beyond those of global waits: a mistake in a pipeline
// then ends as a report, not as a hang. Guards read the clock: never beside wgmma.
#pragma once

#include <nv/target>

#include <cstdint>

#include "core/host_device.hpp"
#include "cuda/cuda_env.cuh"
#include "cuda/ptx/mbarrier.cuh"
#include "sync/pipe.hpp"

namespace mok::cuda {

// full and empty barrier of each stage, 8 bytes each.
struct MbarrierStage {
  std::uint64_t full;
  std::uint64_t empty;
};

// By one thread; the CTA meets at a barrier before the pipe is used.
__device__ __forceinline__ void init_pipe(std::uint32_t address, const PipeShape& shape) {
  for (std::uint32_t stage = 0; stage < shape.num_stages; ++stage) {
    const std::uint32_t at = address + stage * static_cast<std::uint32_t>(sizeof(MbarrierStage));
    ptx::mbarrier_init(at, shape.full_arrivals);
    ptx::mbarrier_init(at + 8, shape.empty_arrivals);
  }
}

// kThread: the calling thread arrives. kWarp: all lanes call, lane 0 arrives when all have come.
enum class Arrive : std::uint32_t { kThread, kWarp };

struct BareWait {
  [[nodiscard]] MOK_HD_MEMBER bool expired() const { return false; }
  MOK_HD_MEMBER void start() {}
};

// Reports Site::kPipe once a local wait has lasted twice as long as both global deadlines together.
class GuardedWait {
 public:
  MOK_HD_MEMBER explicit GuardedWait(CudaEnvWords& words) : words_(&words) {}

  MOK_HD_MEMBER void start() { end_ns_ = 0; }
  [[nodiscard]] MOK_HD_MEMBER bool expired() {
    const CudaEnv<Mirror::kNo> env(*words_);
    if (end_ns_ == 0) {
      end_ns_ = env.now_ns() + 2 * (words_->join_deadline_ns + words_->progress_deadline_ns);
      return false;
    }
    const WaitInfo info{Site::kPipe, DeadlineKind::kProgress, words_->rank, 0, 0};
    if (!env.expired(end_ns_, info)) {
      return false;
    }
    env.report(WaitResult::kTimeout, info);
    return true;
  }

 private:
  CudaEnvWords* words_;
  std::uint64_t end_ns_ = 0;
};

template <std::uint32_t kStages, Arrive kArrive, class Guard>
class MbarrierPipe {
 public:
  MOK_HD_MEMBER MbarrierPipe(std::uint32_t address, Guard guard)
      : address_(address), guard_(guard) {}

  [[nodiscard]] MOK_HD_MEMBER static constexpr std::uint32_t num_stages() { return kStages; }

  MOK_HD_MEMBER void arrive(PipeEdge edge, std::uint32_t stage, std::uint32_t count) const {
    NV_IF_TARGET(NV_IS_DEVICE, (arrive_here(barrier(edge, stage), count);))
  }
  [[nodiscard]] MOK_HD_MEMBER PipeWait wait(PipeEdge edge, std::uint32_t stage,
                                            std::uint32_t parity) const {
    NV_IF_ELSE_TARGET(NV_IS_DEVICE, (return wait_here(barrier(edge, stage), parity);),
                      (return PipeWait::kAborted;))
  }

 private:
  [[nodiscard]] MOK_HD_MEMBER std::uint32_t barrier(PipeEdge edge, std::uint32_t stage) const {
    return address_ + stage * static_cast<std::uint32_t>(sizeof(MbarrierStage)) +
           (edge == PipeEdge::kFull ? 0U : 8U);
  }
  static __device__ __forceinline__ void arrive_here(std::uint32_t at, std::uint32_t count) {
    if constexpr (kArrive == Arrive::kWarp) {
      __syncwarp();  // all lanes are done with the stage; orders their accesses before the arrival
      if (threadIdx.x % 32 == 0) {
        ptx::mbarrier_arrive(at, count);
      }
    } else {
      ptx::mbarrier_arrive(at, count);
    }
  }
  __device__ __forceinline__ PipeWait wait_here(std::uint32_t at, std::uint32_t parity) const {
    Guard guard = guard_;
    guard.start();
    while (!ptx::mbarrier_try_wait_parity(at, parity)) {
      if (guard.expired()) {
        return PipeWait::kAborted;
      }
    }
    return PipeWait::kReady;
  }

  std::uint32_t address_;
  Guard guard_;
};

}  // namespace mok::cuda
