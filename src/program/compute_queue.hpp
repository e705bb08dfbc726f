// compute_queue.hpp: tickets of the compute queue: which tile comes when, forward and backward.
//
// Shared tasks first (they hide the first dispatch), then steps t = 0 .. phases:
//   forward    gate-up(t), down(t-1)
//   recompute  gate-up(t)                                        blocks of the context only
//   backward   gate-up(t) (replay), hidden-grad(t), input-grad(t-1), weight-grad(t-1)
// then the reduce. Inside a phase the blocks are visited in an order rotated by the rank, so that the
// ranks do not all read from rank 0 first; addresses and bits follow row order, not visit order.
//
// A ticket is decoded by a search over the steps. Tickets of one claimer never decrease, so it may keep a
// StepHint: then most tickets cost no search.
#pragma once

#include "program/call.hpp"
#include "program/task.hpp"

namespace mok {

// Column tiles of a call's GEMMs.
template <class Geo>
struct CallTiles {
  const CallView<Geo>& v;
  std::uint32_t gate_up_tiles;
  std::uint32_t hidden_tiles;  // hidden gradient: columns of I
  std::uint32_t out_tiles;     // y and dX: columns of H
  std::uint32_t weight_tiles;  // of one routed expert

  MOK_HD_MEMBER explicit CallTiles(const CallView<Geo>& view)
      : v(view),
        gate_up_tiles(TileCounts<Geo>::gate_up(view.geo, view.intermediate)),
        hidden_tiles(TileCounts<Geo>::plain(view.geo, view.intermediate)),
        out_tiles(TileCounts<Geo>::plain(view.geo, view.hidden)),
        weight_tiles(TileCounts<Geo>::expert_weights(view.geo, view.hidden, view.intermediate)) {}
};

// What one claimer of a queue remembers from ticket to ticket: the step of the last one and its tickets
// [begin, end), counted from the first step; of the compute queue also where the steps begin and end. At
// first it stands just before step 0. On the GPU it lies in shared memory: registers are scarce there.
struct StepHint {
  std::uint32_t step = 0xffffffffU;
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
  std::uint32_t counted = 0;       // 1: the next two hold
  std::uint32_t prefix = 0;        // tickets before the steps
  std::uint32_t reduce_begin = 0;  // tickets of all steps

  [[nodiscard]] MOK_HD_MEMBER bool holds(std::uint32_t ticket) const {
    return ticket >= begin && ticket < end;
  }
  MOK_HD_MEMBER void set(std::uint32_t new_step, std::uint32_t new_begin, std::uint32_t new_end) {
    step = new_step;
    begin = new_begin;
    end = new_end;
  }
};

// Finds the step with before(step) <= ticket < before(step + 1); steps without tickets are passed over.
template <class Before>
MOK_HD void find_step(std::uint32_t ticket, std::uint32_t num_steps, StepHint& hint,
                      Before before) {
  if (hint.holds(ticket)) {
    return;
  }
  if (ticket >= hint.end && hint.step + 1 < num_steps) {  // the next step, as a rule
    hint.set(hint.step + 1, hint.end, before(hint.step + 2));
    if (hint.holds(ticket)) {
      return;
    }
  }
  std::uint32_t low = 0;
  std::uint32_t high = num_steps;
  while (high - low > 1) {
    const std::uint32_t mid = (low + high) / 2;
    (before(mid) <= ticket ? low : high) = mid;
  }
  hint.set(low, before(low), before(low + 1));
}

template <class Geo>
struct ComputeQueue : CallTiles<Geo> {
  using CallTiles<Geo>::v;
  using CallTiles<Geo>::gate_up_tiles;
  using CallTiles<Geo>::hidden_tiles;
  using CallTiles<Geo>::out_tiles;
  using CallTiles<Geo>::weight_tiles;

  MOK_HD_MEMBER explicit ComputeQueue(const CallView<Geo>& view) : CallTiles<Geo>(view) {}

  // The tasks before the steps, in queue order.
  struct Section {
    TaskKind kind;
    std::uint32_t items;  // index runs over these
    std::uint32_t cols;   // col runs over these, fastest
  };
  static constexpr std::uint32_t kNumSections = 7;

  [[nodiscard]] MOK_HD_MEMBER Section section(std::uint32_t i) const {
    const std::uint32_t blocks = shared_blocks(v);
    const std::uint32_t width = v.shared_intermediate;
    const bool backward = v.kind == CallKind::kBackward;
    const bool forward = v.kind == CallKind::kForward;
    const bool gate = v.output_gate == Flagged::kYes && (forward || backward);
    const bool gate_up = !backward || v.shared_replay == Flagged::kYes;
    switch (i) {
      case 0: return {TaskKind::kSharedLogit, gate ? blocks : 0, 1};
      case 1:
        return {TaskKind::kSharedGateUp, gate_up ? blocks : 0,
                TileCounts<Geo>::gate_up(v.geo, width)};
      case 2: return {TaskKind::kSharedDown, forward ? blocks : 0, out_tiles};
      case 3:
        return {TaskKind::kSharedHiddenGrad, backward ? blocks : 0,
                TileCounts<Geo>::plain(v.geo, width)};
      case 4: return {TaskKind::kSharedInputGrad, backward ? blocks : 0, out_tiles};
      case 5:
        return {TaskKind::kSharedWeightGrad, backward && width > 0 ? 1U : 0U,
                TileCounts<Geo>::expert_weights(v.geo, v.hidden, width)};
      default: return {TaskKind::kSharedLogitGrad, backward && gate ? 1U : 0U, out_tiles};
    }
  }
  [[nodiscard]] MOK_HD_MEMBER std::uint32_t zero_items() const {
    const bool zero = v.kind == CallKind::kBackward && v.zero_empty == Flagged::kYes;
    return zero ? v.routes.num_empty : 0;
  }
  [[nodiscard]] MOK_HD_MEMBER std::uint32_t prefix() const {
    std::uint32_t sum = zero_items() * weight_tiles;
    for (std::uint32_t i = 0; i < kNumSections; ++i) {
      const Section s = section(i);
      sum += s.items * s.cols;
    }
    return sum;
  }
  [[nodiscard]] MOK_HD_MEMBER std::uint32_t reduce_tasks() const {
    return v.kind == CallKind::kRecompute ? 0
                                          : ceil_div(v.tokens, std::uint32_t{v.geo.token_stripe});
  }

  // Tickets of the steps before step t.
  [[nodiscard]] MOK_HD_MEMBER std::uint32_t before(std::uint32_t t) const {
    const RouteView& r = v.routes;
    const BlockWindow w = block_window(v.kind, r);
    const std::uint32_t lagging = t == 0 ? 0 : t - 1;
    std::uint32_t sum = (clamp_to(first_block(r, t), w.first, w.last) - w.first) * gate_up_tiles;
    if (v.kind == CallKind::kForward) {
      sum += first_block(r, lagging) * out_tiles;
    } else if (v.kind == CallKind::kBackward) {
      sum += first_block(r, t) * hidden_tiles + first_block(r, lagging) * out_tiles +
             first_part(r, lagging) * weight_tiles;
    }
    return sum;
  }
  [[nodiscard]] MOK_HD_MEMBER std::uint32_t size() const {
    return prefix() + before(v.routes.num_phases + 1) + reduce_tasks();
  }

  [[nodiscard]] MOK_HD_MEMBER Task task(std::uint32_t ticket) const {
    StepHint hint;
    return task(ticket, hint);
  }
  [[nodiscard]] MOK_HD_MEMBER Task task(std::uint32_t ticket, StepHint& hint) const {
    if (hint.counted == 0) {
      hint.counted = 1;
      hint.prefix = prefix();
      hint.reduce_begin = before(v.routes.num_phases + 1);
    }
    if (ticket < hint.prefix) {
      return prefix_task(ticket);
    }
    ticket -= hint.prefix;
    if (ticket >= hint.reduce_begin) {
      return Task{TaskKind::kReduce, ticket - hint.reduce_begin, 0, 0};
    }
    find_step(ticket, v.routes.num_phases + 1, hint, [&](std::uint32_t t) { return before(t); });
    return step_task(hint.step, ticket - hint.begin);
  }

 private:
  [[nodiscard]] MOK_HD_MEMBER Task prefix_task(std::uint32_t ticket) const {
    for (std::uint32_t i = 0; i < kNumSections; ++i) {
      const Section s = section(i);
      if (ticket < s.items * s.cols) {
        return Task{s.kind, ticket / s.cols, ticket % s.cols, 0};
      }
      ticket -= s.items * s.cols;
    }
    return Task{TaskKind::kZeroGrad, ticket / weight_tiles, ticket % weight_tiles, 0};
  }
  // Task `rest` of step `low`.
  [[nodiscard]] MOK_HD_MEMBER Task step_task(std::uint32_t low, std::uint32_t rest) const {
    const RouteView& r = v.routes;
    Task task;
    const BlockWindow w = block_window(v.kind, r);
    const std::uint32_t from = clamp_to(first_block(r, low), w.first, w.last);
    const std::uint32_t to = clamp_to(first_block(r, low + 1), w.first, w.last);
    if (block_tile(TaskKind::kGateUp, from, to, gate_up_tiles, low, rest, task)) {
      return task;
    }
    if (v.kind == CallKind::kBackward &&
        block_tile(TaskKind::kHiddenGrad, first_block(r, low), first_block(r, low + 1),
                   hidden_tiles, low, rest, task)) {
      return task;
    }
    const std::uint32_t lag = low - 1;
    const TaskKind out = v.kind == CallKind::kForward ? TaskKind::kDown : TaskKind::kInputGrad;
    if (block_tile(out, first_block(r, lag), first_block(r, low), out_tiles, lag, rest, task)) {
      return task;
    }
    return Task{TaskKind::kWeightGrad, first_part(r, lag) + rest / weight_tiles,
                rest % weight_tiles, lag};
  }

  // Ticket `rest` among the tiles of blocks [from, to), visited from a place that the rank decides.
  [[nodiscard]] MOK_HD_MEMBER bool block_tile(TaskKind kind, std::uint32_t from, std::uint32_t to,
                                              std::uint32_t cols, std::uint32_t phase,
                                              std::uint32_t& rest, Task& task) const {
    const std::uint32_t blocks = to - from;
    if (rest >= blocks * cols) {
      rest -= blocks * cols;
      return false;
    }
    task = Task{kind, from + rotated(v.routes, rest / cols, blocks), rest % cols, phase};
    return true;
  }

 public:
  // blocks * rank / R, in 32 bits: a 64-bit division is a function call on the GPU.
  MOK_HD_MEMBER static std::uint32_t rotation(const RouteView& routes, std::uint32_t blocks) {
    return blocks / routes.num_ranks * routes.rank +
           blocks % routes.num_ranks * routes.rank / routes.num_ranks;
  }
  MOK_HD_MEMBER static std::uint32_t rotated(const RouteView& routes, std::uint32_t i,
                                             std::uint32_t blocks) {
    const std::uint32_t at = i + rotation(routes, blocks);
    return at < blocks ? at : at - blocks;
  }
};

}  // namespace mok
