// thread_pipe.hpp: Pipe for roles that are threads of one process.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include "sync/pipe.hpp"

namespace mok::cpu {

// Counts all arrivals ever made: phases completed = arrivals / arrivals a phase.
struct alignas(64) ThreadBarrier {
  std::uint64_t arrivals = 0;
};

class ThreadPipeMemory {
 public:
  explicit ThreadPipeMemory(const PipeShape& shape)
      : shape_(shape), barriers_(2U * std::size_t{shape.num_stages}) {}

  [[nodiscard]] const PipeShape& shape() const { return shape_; }
  [[nodiscard]] std::atomic_ref<std::uint64_t> arrivals(PipeEdge edge, std::uint32_t stage) {
    return std::atomic_ref(
        barriers_[2U * std::size_t{stage} + static_cast<std::size_t>(edge)].arrivals);
  }
  [[nodiscard]] std::uint32_t needed(PipeEdge edge) const {
    return edge == PipeEdge::kFull ? shape_.full_arrivals : shape_.empty_arrivals;
  }

 private:
  PipeShape shape_;
  std::vector<ThreadBarrier> barriers_;
};

// Env: anything with `bool aborted()`; each thread has a pipe with an env of its own.
template <class Env>
class ThreadPipe {
 public:
  ThreadPipe(ThreadPipeMemory& memory, Env& env) : memory_(&memory), env_(&env) {}

  [[nodiscard]] std::uint32_t num_stages() const { return memory_->shape().num_stages; }

  void arrive(PipeEdge edge, std::uint32_t stage, std::uint32_t count) const {
    memory_->arrivals(edge, stage)
        .fetch_add(count, std::memory_order_release);  // pairs with: wait()
  }
  [[nodiscard]] PipeWait wait(PipeEdge edge, std::uint32_t stage, std::uint32_t parity) const {
    const auto arrivals = memory_->arrivals(edge, stage);
    const std::uint64_t needed = memory_->needed(edge);
    for (std::uint32_t looks = 0;; ++looks) {
      // pairs with: arrive()
      const std::uint64_t phases = arrivals.load(std::memory_order_acquire) / needed;
      if ((phases & 1U) != parity) {
        return PipeWait::kReady;
      }
      if (looks < kLooksBeforeYield) {
        continue;
      }
      if (env_->aborted()) {
        return PipeWait::kAborted;
      }
      if (looks < kLooksBeforeSleep) {
        std::this_thread::yield();
      } else {
        std::this_thread::sleep_for(std::chrono::microseconds(50));
      }
    }
  }

 private:
  static constexpr std::uint32_t kLooksBeforeYield = 16;
  static constexpr std::uint32_t kLooksBeforeSleep = 64;

  ThreadPipeMemory* memory_;
  Env* env_;
};

}  // namespace mok::cpu
