// signals.hpp: signals_of(task): which counters a task adds to, and which flags follow a full counter.
#pragma once

#include "program/comm_queue.hpp"
#include "program/compute_queue.hpp"
#include "program/task.hpp"
#include "program/waits.hpp"

namespace mok {

template <class Geo>
class SignalRules {
 public:
  MOK_HD_MEMBER explicit SignalRules(const CallView<Geo>& view)
      : v_(view), q_(view), done_{q_}, cells_(view.geo.cells) {}

  [[nodiscard]] MOK_HD_MEMBER SignalList of(const Task& task) const {
    SignalList s;
    switch (task.kind) {
      case TaskKind::kPullX:
      case TaskKind::kReceiveX: s.add(at(Counter::kXReady, task.index), v_.geo.stripe_rows); break;
      case TaskKind::kPullDy:
      case TaskKind::kReceiveDy:
        s.add(at(Counter::kDyReady, task.index), v_.geo.stripe_rows);
        break;
      case TaskKind::kPushX:
        s.add(to_peer(Counter::kPushedX, Flag::kArriveX, record_window(v_.kind), task));
        break;
      case TaskKind::kPushDy:
        s.add(to_peer(Counter::kPushedDy, Flag::kArriveDy, Window::kAll, task));
        break;
      case TaskKind::kGateUp: gate_up(task, s); break;
      case TaskKind::kHiddenGrad:
        s.add(at(Counter::kHiddenGradReady, task.index), 1);
        s.add(at(Counter::kHiddenGradDone, task.phase), 1);
        break;
      case TaskKind::kDown: out_tile(task, s); break;
      case TaskKind::kInputGrad:
        out_tile(task, s);
        retire(task, s);
        break;
      case TaskKind::kWeightGrad: retire(task, s); break;
      case TaskKind::kCombinePush:
        s.add(at(Counter::kCombined, task.phase), v_.geo.stripe_rows);
        s.piece_rows_first = task.col * v_.geo.stripe_rows;
        s.piece_rows_last = s.piece_rows_first + v_.geo.stripe_rows;
        break;
      case TaskKind::kCombinePull:
        s.add(to_peer(Counter::kPulled, Flag::kRelease, Window::kAll, task));
        s.add(at(Counter::kPulledAll, 0), 1);
        break;
      default: shared(task, s); break;
    }
    return s;
  }

  // Count that makes the pieces for `owner` complete; the kArriveOut flag follows.
  [[nodiscard]] MOK_HD_MEMBER std::uint32_t full_pieces(std::uint32_t owner) const {
    return v_.routes.rows_of[owner] * (v_.out_way == Combine::kScatter ? q_.out_tiles : 1);
  }

 private:
  [[nodiscard]] MOK_HD_MEMBER std::uint32_t at(Counter counter, std::uint32_t i) const {
    return v_.counters.index(counter, i);
  }
  [[nodiscard]] MOK_HD_MEMBER Signal to_all(std::uint32_t counter, std::uint32_t full, Flag flag,
                                            std::uint32_t phase) const {
    return Signal{counter, 1, full, flag, 0, v_.routes.num_ranks - 1, phase % cells_, phase + 1};
  }
  [[nodiscard]] MOK_HD_MEMBER Signal to_peer(Counter counter, Flag flag, Window window,
                                             const Task& task) const {
    const std::uint32_t peer = v_.routes.records[task.index].peer;
    return Signal{at(counter, task.index),
                  1,
                  CommQueue<Geo>(v_).record_stripes(task.index, window),
                  flag,
                  peer,
                  peer,
                  task.phase % cells_,
                  task.phase + 1};
  }
  MOK_HD_MEMBER void gate_up(const Task& task, SignalList& s) const {
    s.add(at(Counter::kGateUpReady, task.index), 1);
    const std::uint32_t counter = at(Counter::kGateUpDone, task.phase);
    if (v_.kind != CallKind::kBackward && v_.x_way == Dispatch::kPush &&
        window_blocks(v_, task.phase + cells_) > 0) {
      s.add(to_all(counter, done_.gate_up(task.phase), Flag::kFree, task.phase));
    } else {
      s.add(counter, 1);
    }
  }
  // The cell is announced free only to pushes of its next phase. Those pushes come before that phase
  // retires, so the announcements of one cell are stored in order; without a push nothing would order
  // them, and a late store could take a newer one back.
  MOK_HD_MEMBER void retire(const Task& task, SignalList& s) const {
    const std::uint32_t counter = at(Counter::kRetired, task.phase);
    const std::uint32_t next = task.phase + cells_;
    const bool x_pushed = v_.x_way == Dispatch::kPush && window_blocks(v_, next) > 0;
    const bool dy_pushed = v_.dy_way == Dispatch::kPush && blocks_of(v_.routes, next) > 0;
    if (x_pushed || dy_pushed) {
      s.add(to_all(counter, done_.retired(task.phase), Flag::kFree, task.phase));
    } else {
      s.add(counter, 1);
    }
  }
  MOK_HD_MEMBER void out_tile(const Task& task, SignalList& s) const {
    const std::uint32_t counter = at(Counter::kOutDone, task.phase);
    switch (v_.out_way) {
      case Combine::kScatter:
        s.add(counter, 1);
        s.piece_rows_last = v_.routes.blocks[task.index].rows;
        break;
      case Combine::kPush:
        s.add(counter, 1);
        s.add(at(Counter::kOutReady, task.index), 1);
        break;
      case Combine::kPull:
        s.add(to_all(counter, done_.out(task.phase), Flag::kReady, task.phase));
        break;
    }
  }
  MOK_HD_MEMBER void shared(const Task& task, SignalList& s) const {
    switch (task.kind) {
      case TaskKind::kSharedLogit: s.add(at(Counter::kSharedLogit, task.index), 1); break;
      case TaskKind::kSharedGateUp: s.add(at(Counter::kSharedGateUp, task.index), 1); break;
      case TaskKind::kSharedDown: s.add(at(Counter::kSharedOut, task.index), 1); break;
      case TaskKind::kSharedHiddenGrad:
        s.add(at(Counter::kSharedHiddenGrad, task.index), 1);
        s.add(at(Counter::kSharedGradDone, 0), 1);
        break;
      case TaskKind::kSharedInputGrad:
        s.add(at(Counter::kSharedOut, task.index), 1);
        s.add(at(Counter::kSharedOutDone, 0), 1);
        break;
      default: break;  // weight gradients and reduce: nobody waits inside the call
    }
  }

  const CallView<Geo>& v_;
  CallTiles<Geo> q_;
  PhaseTargets<Geo> done_;
  std::uint32_t cells_;
};

template <class Geo>
MOK_HD SignalList signals_of(const CallView<Geo>& view, const Task& task) {
  return SignalRules<Geo>(view).of(task);
}

// Calls f(owner, rows) for each rank that owns rows among [first, last) of the block (real rows only).
template <class F>
MOK_HD void for_each_owner(const RouteView& r, std::uint32_t block_index, std::uint32_t first,
                           std::uint32_t last, F f) {
  const BlockRecord& block = r.blocks[block_index];
  const std::uint32_t stop = last < block.rows ? last : block.rows;
  const std::uint32_t index0 = block.row0 - r.expert_row0[block.expert];
  const std::uint32_t* prefix =
      r.source_prefix + static_cast<std::uint64_t>(block.expert) * (r.num_ranks + 1);
  std::uint32_t row = first;
  std::uint32_t owner = block.first_source;
  while (row < stop) {
    owner = source_of(r, block.expert, index0 + row, owner);
    const std::uint32_t end = prefix[owner + 1] - index0;
    const std::uint32_t next = end < stop ? end : stop;
    f(owner, next - row);
    row = next;
  }
}

}  // namespace mok
