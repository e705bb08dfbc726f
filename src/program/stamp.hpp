// stamp.hpp: each task's place in the proof that no call can deadlock.
//
// A stamp is (step, order). Steps are common to all ranks, whatever number of phases each has. Every
// wait goes to a strictly smaller stamp, every queue is in non-decreasing order of stamps, and a task
// whose waits hold ends by itself: so the unfinished task of least stamp can always run.
#pragma once

#include "program/comm_queue.hpp"
#include "program/compute_queue.hpp"
#include "program/task.hpp"

namespace mok {

using Stamp = std::uint64_t;

MOK_HD constexpr Stamp make_stamp(std::uint64_t step, std::uint32_t order) {
  return (step << 4) | order;
}

template <class Geo>
MOK_HD Stamp stamp_of(const CallView<Geo>& v, const Task& task) {
  const CommQueue<Geo> comm(v);
  const std::uint64_t lead = comm.lead();
  const std::uint64_t base = v.geo.look_ahead + 1U + task.phase;  // step of the phase's gate-up
  switch (task.kind) {
    case TaskKind::kSharedLogit: return make_stamp(0, 0);
    case TaskKind::kSharedGateUp: return make_stamp(0, 1);
    case TaskKind::kSharedDown:
    case TaskKind::kSharedHiddenGrad: return make_stamp(0, 2);
    case TaskKind::kSharedInputGrad: return make_stamp(0, 3);
    case TaskKind::kSharedWeightGrad: return make_stamp(0, 4);
    case TaskKind::kSharedLogitGrad: return make_stamp(0, 5);
    case TaskKind::kZeroGrad: return make_stamp(0, 6);
    case TaskKind::kPullX:
    case TaskKind::kPullDy:
    case TaskKind::kPushX:
    case TaskKind::kPushDy: return make_stamp(base - lead, 0);
    case TaskKind::kReceiveX:
    case TaskKind::kReceiveDy: return make_stamp(base - comm.receive_lead(), 1);
    case TaskKind::kGateUp: return make_stamp(base, 2);
    case TaskKind::kHiddenGrad: return make_stamp(base, 3);
    case TaskKind::kDown: return make_stamp(base + 1, 3);
    case TaskKind::kInputGrad: return make_stamp(base + 1, 4);
    case TaskKind::kWeightGrad: return make_stamp(base + 1, 5);
    case TaskKind::kCombinePush:
    case TaskKind::kCombinePull: return make_stamp(base + 1, 6);
    case TaskKind::kReduce: return make_stamp(0xffffffffU, 0);
    case TaskKind::kStop:
    case TaskKind::kNumTaskKinds: break;
  }
  return ~Stamp{0};
}

}  // namespace mok
