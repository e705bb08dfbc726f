// waits.hpp: waits_of(task): at most three counters of this rank and one run of per-rank flags.
#pragma once

#include "program/comm_queue.hpp"
#include "program/compute_queue.hpp"
#include "program/task.hpp"

namespace mok {

// Final counts of the per-phase counters: what "the phase is done" means.
template <class Geo>
struct PhaseTargets {
  CallTiles<Geo> q;

  [[nodiscard]] MOK_HD_MEMBER std::uint32_t gate_up(std::uint32_t phase) const {
    return window_blocks(q.v, phase) * q.gate_up_tiles;
  }
  [[nodiscard]] MOK_HD_MEMBER std::uint32_t out(std::uint32_t phase) const {
    return blocks_of(q.v.routes, phase) * q.out_tiles;
  }
  [[nodiscard]] MOK_HD_MEMBER std::uint32_t hidden_grad(std::uint32_t phase) const {
    return blocks_of(q.v.routes, phase) * q.hidden_tiles;
  }
  [[nodiscard]] MOK_HD_MEMBER std::uint32_t retired(std::uint32_t phase) const {
    const RouteView& r = q.v.routes;
    return out(phase) + (first_part(r, phase + 1) - first_part(r, phase)) * q.weight_tiles;
  }
  [[nodiscard]] MOK_HD_MEMBER std::uint32_t combined(std::uint32_t phase) const {
    return first_row(q.v.routes, phase + 1) - first_row(q.v.routes, phase);
  }
};

template <class Geo>
class WaitRules {
 public:
  MOK_HD_MEMBER explicit WaitRules(const CallView<Geo>& view)
      : v_(view), q_(view), done_{q_}, cells_(view.geo.cells) {}

  [[nodiscard]] MOK_HD_MEMBER WaitList of(const Task& task) const {
    WaitList w;
    switch (task.kind) {
      case TaskKind::kPullX:
      case TaskKind::kPullDy: pull(task, w); break;
      case TaskKind::kPushX:
      case TaskKind::kPushDy: peer_cell_free(task, w); break;
      case TaskKind::kReceiveX: arrived(Flag::kArriveX, task, w); break;
      case TaskKind::kReceiveDy: arrived(Flag::kArriveDy, task, w); break;
      case TaskKind::kGateUp: gate_up(task, w); break;
      case TaskKind::kDown:
        w.add(at(Counter::kGateUpReady, task.index), q_.gate_up_tiles, Site::kHidden);
        out_cell_free(task, w);
        break;
      case TaskKind::kHiddenGrad: hidden_grad(task, w); break;
      case TaskKind::kInputGrad:
        w.add(at(Counter::kHiddenGradReady, task.index), q_.hidden_tiles, Site::kHidden);
        out_cell_free(task, w);
        break;
      case TaskKind::kWeightGrad: weight_grad(task, w); break;
      case TaskKind::kCombinePush:
        w.add(at(Counter::kOutReady, task.index), q_.out_tiles, Site::kOutRows);
        break;
      case TaskKind::kCombinePull: combine_pull(task, w); break;
      case TaskKind::kReduce: reduce(task, w); break;
      default: shared(task, w); break;
    }
    return w;
  }

 private:
  [[nodiscard]] MOK_HD_MEMBER std::uint32_t at(Counter counter, std::uint32_t i) const {
    return v_.counters.index(counter, i);
  }

  // The cell's rows of phase - cells have been used up.
  MOK_HD_MEMBER void own_cell_free(std::uint32_t phase, WaitList& w) const {
    if (phase < cells_) {
      return;
    }
    const std::uint32_t before = phase - cells_;
    if (v_.kind == CallKind::kBackward) {
      w.add(at(Counter::kRetired, before), done_.retired(before), Site::kCellFree);
    } else {
      w.add(at(Counter::kGateUpDone, before), done_.gate_up(before), Site::kCellFree);
    }
  }
  MOK_HD_MEMBER void pull(const Task& task, WaitList& w) const {
    const RouteView& r = v_.routes;
    const BlockRecord& block = r.blocks[task.index];
    const std::uint32_t first = task.col * v_.geo.stripe_rows;
    if (first < block.rows) {
      // Place of the stripe among the rows of its expert, over all the expert's blocks.
      const std::uint32_t index0 = block.row0 - r.expert_row0[block.expert] + first;
      const std::uint32_t last_row = block.row0 - r.expert_row0[block.expert] + block.rows;
      const std::uint32_t end = index0 + v_.geo.stripe_rows;
      const std::uint32_t from = source_of(r, block.expert, index0, block.first_source);
      const std::uint32_t to =
          source_of(r, block.expert, (end < last_row ? end : last_row) - 1, from);
      w.set(FlagWait{Flag::kStart, from, to, 0, v_.start_word, Site::kStart});
    }
    own_cell_free(task.phase, w);
  }
  MOK_HD_MEMBER void peer_cell_free(const Task& task, WaitList& w) const {
    if (task.phase >= cells_) {
      const std::uint32_t peer = v_.routes.records[task.index].peer;
      w.set(FlagWait{Flag::kFree, peer, peer, task.phase % cells_, task.phase - cells_ + 1,
                     Site::kCellFree});
    }
  }
  MOK_HD_MEMBER void arrived(Flag flag, const Task& task, WaitList& w) const {
    w.set(FlagWait{flag, 0, v_.routes.num_ranks - 1, task.phase % cells_, task.phase + 1,
                   Site::kArrive});
  }
  MOK_HD_MEMBER void gate_up(const Task& task, WaitList& w) const {
    w.add(at(Counter::kXReady, task.index), v_.routes.blocks[task.index].padded_rows, Site::kRows);
    if (task.phase < cells_ || v_.kind == CallKind::kRecompute) {
      return;
    }
    const std::uint32_t before = task.phase - cells_;
    if (v_.kind == CallKind::kBackward) {
      w.add(at(Counter::kRetired, before), done_.retired(before), Site::kCellFree);
    } else {
      w.add(at(Counter::kOutDone, before), done_.out(before), Site::kCellFree);
    }
  }
  MOK_HD_MEMBER void hidden_grad(const Task& task, WaitList& w) const {
    w.add(at(Counter::kDyReady, task.index), v_.routes.blocks[task.index].padded_rows, Site::kRows);
    if (task.index >= v_.routes.saved_blocks) {
      w.add(at(Counter::kGateUpReady, task.index), q_.gate_up_tiles, Site::kHidden);
    }
    own_cell_free(task.phase, w);
  }
  MOK_HD_MEMBER void out_cell_free(const Task& task, WaitList& w) const {
    if (task.phase < cells_ || v_.out_way == Combine::kScatter) {
      return;
    }
    const std::uint32_t before = task.phase - cells_;
    if (v_.out_way == Combine::kPush) {
      w.add(at(Counter::kCombined, before), done_.combined(before), Site::kCellFree);
    } else {
      w.set(FlagWait{Flag::kRelease, 0, v_.routes.num_ranks - 1, task.phase % cells_, before + 1,
                     Site::kRelease});
    }
  }
  MOK_HD_MEMBER void weight_grad(const Task& task, WaitList& w) const {
    w.add(at(Counter::kHiddenGradDone, task.phase), done_.hidden_grad(task.phase),
          Site::kGradients);
    const std::uint32_t before = v_.routes.parts[task.index].wait_phase;
    if (before != kNoPhase) {
      w.add(at(Counter::kRetired, before), done_.retired(before), Site::kSpill);
    }
  }
  // A rank without rows in the phase waits too: its release must not overtake that of phase - cells.
  MOK_HD_MEMBER void combine_pull(const Task& task, WaitList& w) const {
    const std::uint32_t peer = v_.routes.records[task.index].peer;
    w.set(FlagWait{Flag::kReady, peer, peer, task.phase % cells_, task.phase + 1, Site::kReady});
  }
  MOK_HD_MEMBER void reduce(const Task& task, WaitList& w) const {
    const RouteView& r = v_.routes;
    const std::uint32_t block = task.index * v_.geo.token_stripe / v_.geo.block_rows;
    if (v_.shared_intermediate > 0) {
      w.add(at(Counter::kSharedOut, block), q_.out_tiles, Site::kShared);
      if (v_.output_gate == Flagged::kYes && v_.kind == CallKind::kForward) {
        w.add(at(Counter::kSharedLogit, block), 1, Site::kShared);
      }
    }
    if (v_.out_way == Combine::kPull) {
      w.add(at(Counter::kPulledAll, 0),
            r.records[r.num_records].stripe0[static_cast<std::uint32_t>(Window::kAll)],
            Site::kArriveOut);
    } else {
      w.set(FlagWait{Flag::kArriveOut, 0, r.num_ranks - 1, 0, 1, Site::kArriveOut});
    }
  }
  MOK_HD_MEMBER void shared(const Task& task, WaitList& w) const {
    const std::uint32_t blocks = shared_blocks(v_);
    const std::uint32_t width = v_.shared_intermediate;
    switch (task.kind) {
      case TaskKind::kSharedDown:
        w.add(at(Counter::kSharedGateUp, task.index), TileCounts<Geo>::gate_up(v_.geo, width),
              Site::kShared);
        break;
      case TaskKind::kSharedHiddenGrad:
        if (v_.output_gate == Flagged::kYes) {
          w.add(at(Counter::kSharedLogit, task.index), 1, Site::kShared);
        }
        if (v_.shared_replay == Flagged::kYes) {
          w.add(at(Counter::kSharedGateUp, task.index), TileCounts<Geo>::gate_up(v_.geo, width),
                Site::kShared);
        }
        break;
      case TaskKind::kSharedInputGrad:
        w.add(at(Counter::kSharedHiddenGrad, task.index), TileCounts<Geo>::plain(v_.geo, width),
              Site::kShared);
        break;
      case TaskKind::kSharedWeightGrad:
        w.add(at(Counter::kSharedGradDone, 0), blocks * TileCounts<Geo>::plain(v_.geo, width),
              Site::kShared);
        break;
      case TaskKind::kSharedLogitGrad:
        w.add(at(Counter::kSharedOutDone, 0), blocks * q_.out_tiles, Site::kShared);
        break;
      default: break;  // shared logit, shared gate-up, zero gradient: nothing to wait for
    }
  }

  const CallView<Geo>& v_;
  CallTiles<Geo> q_;
  PhaseTargets<Geo> done_;
  std::uint32_t cells_;
};

template <class Geo>
MOK_HD WaitList waits_of(const CallView<Geo>& view, const Task& task) {
  return WaitRules<Geo>(view).of(task);
}

}  // namespace mok
