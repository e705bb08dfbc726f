// comm_queue.hpp: tickets of the comm queue: which rows move when, forward and backward.
//
// Steps u = 0 ..: dispatch(u), receive(u - lead + receive_lead), combine(u - lead - 1), where `lead` is
// how many steps a dispatch comes before its compute. A pull moves this rank's own block stripes; a push
// moves exchange records, in the order of the receivers' phases, and the receiver finishes its blocks in
// receive stripes (pad rows, the copy into a saving context).
#pragma once

#include "program/call.hpp"
#include "program/compute_queue.hpp"
#include "program/task.hpp"

namespace mok {

template <class Geo>
struct CommQueue {
  const CallView<Geo>& v;

  MOK_HD_MEMBER explicit CommQueue(const CallView<Geo>& view) : v(view) {}

  // Forward: the x cell is free after gate-up(p - cells). Backward: after everything of p - cells, which
  // comes one step later.
  [[nodiscard]] MOK_HD_MEMBER std::uint32_t lead() const {
    return v.kind == CallKind::kBackward ? v.geo.look_ahead - 1 : std::uint32_t{v.geo.look_ahead};
  }
  [[nodiscard]] MOK_HD_MEMBER std::uint32_t receive_lead() const { return lead() == 0 ? 0 : 1; }

  // A stream of stripes, by phase: `unit` block stripes or record stripes.
  enum class Unit : std::uint32_t { kNothing, kBlocks, kWindowBlocks, kRecords };
  struct Stream {
    TaskKind kind;
    Unit unit;
    Window window;       // of kRecords
    std::uint32_t late;  // steps after the dispatch
  };
  static constexpr std::uint32_t kNumStreams = 5;

  [[nodiscard]] MOK_HD_MEMBER Stream stream(std::uint32_t i) const {
    const bool backward = v.kind == CallKind::kBackward;
    const bool push_x = v.x_way == Dispatch::kPush;
    const bool push_dy = v.dy_way == Dispatch::kPush;
    const std::uint32_t receive = lead() - receive_lead();
    switch (i) {
      case 0:
        return {push_x ? TaskKind::kPushX : TaskKind::kPullX,
                push_x ? Unit::kRecords : Unit::kWindowBlocks, record_window(v.kind), 0};
      case 1:
        return {push_dy ? TaskKind::kPushDy : TaskKind::kPullDy,
                !backward ? Unit::kNothing : (push_dy ? Unit::kRecords : Unit::kBlocks),
                Window::kAll, 0};
      case 2:
        return {TaskKind::kReceiveX, push_x ? Unit::kWindowBlocks : Unit::kNothing, Window::kAll,
                receive};
      case 3:
        return {TaskKind::kReceiveDy, backward && push_dy ? Unit::kBlocks : Unit::kNothing,
                Window::kAll, receive};
      default: {
        const bool none = v.kind == CallKind::kRecompute || v.out_way == Combine::kScatter;
        const bool push = v.out_way == Combine::kPush;
        return {push ? TaskKind::kCombinePush : TaskKind::kCombinePull,
                none ? Unit::kNothing : (push ? Unit::kBlocks : Unit::kRecords), Window::kAll,
                lead() + 1};
      }
    }
  }

  // Stripes of the stream in phases before `phase`.
  [[nodiscard]] MOK_HD_MEMBER std::uint32_t stripes_before(const Stream& s,
                                                           std::uint32_t phase) const {
    const RouteView& r = v.routes;
    switch (s.unit) {
      case Unit::kNothing: return 0;
      case Unit::kBlocks: return first_row(r, phase) / v.geo.stripe_rows;
      case Unit::kWindowBlocks: return (window_row(phase) - window_row(0)) / v.geo.stripe_rows;
      case Unit::kRecords: {
        const std::uint32_t p = phase < r.max_phases ? phase : r.max_phases;
        return r.records[r.record0[p]].stripe0[static_cast<std::uint32_t>(s.window)];
      }
    }
    return 0;
  }
  [[nodiscard]] MOK_HD_MEMBER std::uint32_t before(std::uint32_t u) const {
    std::uint32_t sum = 0;
    for (std::uint32_t i = 0; i < kNumStreams; ++i) {
      const Stream s = stream(i);
      sum += stripes_before(s, u < s.late ? 0 : u - s.late);
    }
    return sum;
  }
  [[nodiscard]] MOK_HD_MEMBER std::uint32_t steps() const {
    return v.routes.max_phases + lead() + 2;
  }
  [[nodiscard]] MOK_HD_MEMBER std::uint32_t size() const { return before(steps()); }

  [[nodiscard]] MOK_HD_MEMBER Task task(std::uint32_t ticket) const {
    StepHint hint;
    return task(ticket, hint);
  }
  [[nodiscard]] MOK_HD_MEMBER Task task(std::uint32_t ticket, StepHint& hint) const {
    find_step(ticket, steps(), hint, [&](std::uint32_t u) { return before(u); });
    const std::uint32_t low = hint.step;
    std::uint32_t rest = ticket - hint.begin;
    for (std::uint32_t i = 0; i < kNumStreams; ++i) {
      const Stream s = stream(i);
      if (low < s.late) {
        continue;
      }
      const std::uint32_t phase = low - s.late;
      const std::uint32_t first = stripes_before(s, phase);
      const std::uint32_t count = stripes_before(s, phase + 1) - first;
      if (rest < count) {
        return s.unit == Unit::kRecords ? record_stripe(s, phase, first + rest)
                                        : block_stripe(s, phase, rest, count);
      }
      rest -= count;
    }
    return Task{};
  }

  // Stripes of a record in a window.
  [[nodiscard]] MOK_HD_MEMBER std::uint32_t record_stripes(std::uint32_t record,
                                                           Window window) const {
    const auto w = static_cast<std::uint32_t>(window);
    return v.routes.records[record + 1].stripe0[w] - v.routes.records[record].stripe0[w];
  }

 private:
  // First window row of a phase, as a padded row.
  [[nodiscard]] MOK_HD_MEMBER std::uint32_t window_row(std::uint32_t phase) const {
    const RouteView& r = v.routes;
    const BlockWindow w = block_window(v.kind, r);
    return clamp_to(first_row(r, phase), block_row(w.first), block_row(w.last));
  }
  [[nodiscard]] MOK_HD_MEMBER std::uint32_t block_row(std::uint32_t block) const {
    const RouteView& r = v.routes;
    return block < r.num_blocks ? r.blocks[block].row0 : first_row(r, r.num_phases);
  }

  [[nodiscard]] MOK_HD_MEMBER Task record_stripe(const Stream& s, std::uint32_t phase,
                                                 std::uint32_t stripe) const {
    const RouteView& r = v.routes;
    const auto w = static_cast<std::uint32_t>(s.window);
    std::uint32_t low = r.record0[phase];
    std::uint32_t high = r.record0[phase + 1];
    while (high - low > 1) {
      const std::uint32_t mid = (low + high) / 2;
      (r.records[mid].stripe0[w] <= stripe ? low : high) = mid;
    }
    return Task{s.kind, low, stripe - r.records[low].stripe0[w], phase};
  }

  // Stripe `rest` of `count` of a phase's blocks, rotated like the compute queue.
  [[nodiscard]] MOK_HD_MEMBER Task block_stripe(const Stream& s, std::uint32_t phase,
                                                std::uint32_t rest, std::uint32_t count) const {
    const RouteView& r = v.routes;
    const BlockWindow w =
        s.unit == Unit::kWindowBlocks ? block_window(v.kind, r) : BlockWindow{0, r.num_blocks};
    std::uint32_t low = clamp_to(first_block(r, phase), w.first, w.last);
    std::uint32_t high = clamp_to(first_block(r, phase + 1), w.first, w.last);
    const std::uint32_t row0 = r.blocks[low].row0;
    const std::uint32_t start =
        r.blocks[low + ComputeQueue<Geo>::rotation(r, high - low)].row0 - row0;
    const std::uint32_t stripe = (rest + start / v.geo.stripe_rows) % count;
    const std::uint32_t row = row0 + stripe * v.geo.stripe_rows;
    while (high - low > 1) {
      const std::uint32_t mid = (low + high) / 2;
      (r.blocks[mid].row0 <= row ? low : high) = mid;
    }
    return Task{s.kind, low, (row - r.blocks[low].row0) / v.geo.stripe_rows, phase};
  }
};

}  // namespace mok
