// spike_bodies.cuh: bodies of the spike: tokens through ring stages, a log of tickets, nothing else.
#pragma once

#include <nv/target>

#include <cstdint>

#include "core/host_device.hpp"
#include "cuda/mbarrier_pipe.cuh"
#include "cuda/spike_kernel.cuh"

namespace mok::cuda {

inline constexpr std::uint32_t kMailboxStages = 2;
inline constexpr std::uint32_t kRingStages = 4;
inline constexpr std::uint32_t kMmaWarps = 8;

MOK_HD constexpr PipeShape mailbox_shape() {
  return {kMailboxStages, 1, 2 + kMmaWarps};
}
MOK_HD constexpr PipeShape ring_shape() {
  return {kRingStages, 1, kMmaWarps};
}
MOK_HD constexpr PipeShape handover_shape() {
  return {kRingStages, kMmaWarps, 1};
}

// Start of the CTA's dynamic shared memory. The rank is written before the roles part, then only read.
template <class Geo>
struct SpikeShared {
  SpikeRank<Geo> rank;
  std::uint32_t block;  // blockIdx.x
  StepHint hints[2];    // of the scheduler and of the comm role
  MbarrierStage mailbox[kMailboxStages];
  MbarrierStage ring[kRingStages];
  MbarrierStage handover[kRingStages];
  Task slots[kMailboxStages];
  std::uint32_t tickets[kMailboxStages];             // scheduler -> storer, beside the mailbox
  std::uint32_t ring_tokens[kRingStages];            // loader -> MMA
  std::uint32_t out_tokens[kRingStages][kMmaWarps];  // MMA -> storer
};
static_assert(sizeof(SpikeShared<StaticGeometry>) < 8192);

MOK_HD std::uint32_t stage_token(const Task& task, std::uint32_t place) {
  return (static_cast<std::uint32_t>(task.kind) * 31U + task.index) * 977U + task.col * 61U + place;
}

// Each role has one of its own. Numbers of stages vary from task to task, so that every turn of the
// ring is met: 1 to 3 steps and 1 or 2 outs.
template <class Geo>
class SpikeBodies {
 public:
  MOK_HD_MEMBER explicit SpikeBodies(SpikeShared<Geo>& cta) : cta_(&cta) {}

  [[nodiscard]] MOK_HD_MEMBER std::uint32_t num_steps(const Task& task) const {
    return 1 + task.col % 3;
  }
  [[nodiscard]] MOK_HD_MEMBER std::uint32_t num_outs(const Task& task) const {
    return 1 + task.index % 2;
  }

  MOK_HD_MEMBER void claimed(const Task& task, std::uint32_t ticket, std::uint32_t slot) const {
    cta_->tickets[slot] = ticket;
    if (cta_->rank.log.scheduled != nullptr) {
      cta_->rank.log.scheduled[ticket] = task;
      add(cta_->rank.log.compute.visits + ticket, 0x10000U);
    }
  }
  MOK_HD_MEMBER void received(const Task& task, std::uint32_t slot) const {
    log(cta_->rank.log.compute, task, cta_->tickets[slot]);
  }
  MOK_HD_MEMBER void transfer(const Task& task, std::uint32_t ticket) const {
    log(cta_->rank.log.comm, task, ticket);
  }

  MOK_HD_MEMBER void load(const Task& task, std::uint32_t step, std::uint32_t stage) const {
    cta_->ring_tokens[stage] = stage_token(task, step);
  }
  MOK_HD_MEMBER void lend(const Task& task, std::uint32_t out, std::uint32_t stage) const {
    cta_->ring_tokens[stage] = stage_token(task, 8 + out);
  }
  MOK_HD_MEMBER void compute(const Task& task, std::uint32_t step, std::uint32_t stage) const {
    expect(cta_->ring_tokens[stage] == stage_token(task, step));
  }
  MOK_HD_MEMBER void finish(const Task& task, std::uint32_t out, std::uint32_t stage) const {
    expect(cta_->ring_tokens[stage] == stage_token(task, 8 + out));
    NV_IF_TARGET(NV_IS_DEVICE,
                 (cta_->out_tokens[stage][threadIdx.x / 32 - 4] = stage_token(task, 16 + out);))
  }
  MOK_HD_MEMBER void store(const Task& task, std::uint32_t out, std::uint32_t stage) const {
    for (std::uint32_t warp = 0; warp < kMmaWarps; ++warp) {
      expect(cta_->out_tokens[stage][warp] == stage_token(task, 16 + out));
    }
  }
  MOK_HD_MEMBER void stored(const Task&) const {}

 private:
  static MOK_HD_MEMBER void log(const SpikeTicketLog& to, const Task& task, std::uint32_t ticket) {
    if (to.tasks != nullptr) {
      to.tasks[ticket] = task;
      add(to.visits + ticket, 1);
      add(to.digest, ticket_digest(task, ticket));
    }
  }
  MOK_HD_MEMBER void expect(bool holds) const {
    if (!holds) {
      add(cta_->rank.log.wrong, 1);
    }
  }
  static MOK_HD_MEMBER void add(std::uint32_t* word, std::uint32_t amount) {
    NV_IF_TARGET(NV_IS_DEVICE, (atomicAdd(word, amount);))
  }

  static MOK_HD_MEMBER void add(std::uint64_t* word, std::uint64_t amount) {
    NV_IF_TARGET(NV_IS_DEVICE, (atomicAdd(reinterpret_cast<unsigned long long*>(word), amount);))
  }

  SpikeShared<Geo>* cta_;
};

}  // namespace mok::cuda
