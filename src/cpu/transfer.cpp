// transfer.cpp: moves rows between ranks. Reads and writes of other ranks' memory are counted here.
#include "cpu/transfer.hpp"

#include <algorithm>
#include <cstring>

namespace mok::cpu {

namespace {

constexpr RowRoute kPadRoute{kNoOwner, 0};

bool backward(const CallData& d) {
  return d.view.kind == CallKind::kBackward;
}

void copy_row(Bf16* to, const Bf16* from, std::uint64_t count) {
  std::memcpy(to, from, count * sizeof(Bf16));
}

void count_read(const CallData& d, TransferCounts& counts, std::uint32_t peer, std::uint64_t rows,
                std::uint64_t elements) {
  if (peer != d.view.routes.rank) {
    counts.remote_reads += rows;
    counts.bytes += elements * sizeof(Bf16);
  }
}
void count_write(const CallData& d, TransferCounts& counts, std::uint32_t peer, std::uint64_t rows,
                 std::uint64_t elements) {
  if (peer != d.view.routes.rank) {
    counts.remote_writes += rows;
    counts.bytes += elements * sizeof(Bf16);
  }
}

// Rows [first, last) of a block's stripe; rows at or beyond block.rows are pad rows.
struct StripeRows {
  std::uint32_t first;
  std::uint32_t last;
  std::uint32_t real;  // end of the real rows in the stripe
};
StripeRows stripe_rows(const CallData& d, const Task& task) {
  const BlockRecord& b = d.view.routes.blocks[task.index];
  const std::uint32_t first = task.col * d.view.geo.stripe_rows;
  const std::uint32_t last = std::min<std::uint32_t>(first + d.view.geo.stripe_rows, b.padded_rows);
  return {first, last, std::clamp<std::uint32_t>(b.rows, first, last)};
}

void zero_pads(const CallData& d, Bf16* rows, const StripeRows& s) {
  std::fill(rows + std::uint64_t{s.real} * d.view.hidden,
            rows + std::uint64_t{s.last} * d.view.hidden, Bf16{});
}
void mark_pads(RowRoute* routes, float* weights, const StripeRows& s) {
  std::fill(routes + s.real, routes + s.last, kPadRoute);
  std::fill(weights + s.real, weights + s.last, 0.0F);
}

struct RowTags {
  RowRoute* routes;
  float* weights;
};
RowTags tags_of(const CallData& d, std::uint32_t block) {
  const std::uint64_t row = d.route_row_of(d.view.routes.blocks[block]);
  return {d.own<RowRoute>(d.layout->arena.routes) + row,
          d.own<float>(d.layout->arena.row_weights) + row};
}

// Calls f(row, source, slot) for the real rows of a stripe.
template <class F>
void for_each_source(const CallData& d, const Task& task, const StripeRows& s, F f) {
  const RouteView& r = d.view.routes;
  const BlockRecord& b = r.blocks[task.index];
  const std::uint32_t index0 = b.row0 - r.expert_row0[b.expert];
  const std::uint32_t* prefix =
      r.source_prefix + static_cast<std::uint64_t>(b.expert) * (r.num_ranks + 1);
  std::uint32_t source = b.first_source;
  for (std::uint32_t row = s.first; row < s.real; ++row) {
    source = source_of(r, b.expert, index0 + row, source);
    const std::uint32_t place =
        r.slot_offset[static_cast<std::uint64_t>(source) * r.local_experts + b.expert] + index0 +
        row - prefix[source];
    f(row, source, d.arena<std::uint32_t>(source, d.layout->arena.sorted_slots)[place]);
  }
}

// Calls f(slot, padded row at the peer) for the rows of a record's stripe.
template <class F>
void for_each_exchange(const CallData& d, const Task& task, Window window, F f) {
  const RouteView& r = d.view.routes;
  const ExchangeRecord& record = r.records[task.index];
  const std::uint32_t begin = window == Window::kReplay ? record.saved_rows : 0;
  const std::uint32_t end = window == Window::kSaved ? record.saved_rows : record.rows;
  const std::uint32_t first = begin + task.col * d.view.geo.stripe_rows;
  const std::uint32_t last = std::min<std::uint32_t>(first + d.view.geo.stripe_rows, end);
  if (first >= last) {
    return;
  }
  const auto* slots = d.own<std::uint32_t>(d.layout->arena.sorted_slots);
  for_each_run(r, record, first, last, [&](const ExchangeRun& run) {
    for (std::uint32_t i = 0; i < run.count; ++i) {
      f(slots[r.own_offset[run.expert] + run.index + i], run.peer_row + i);
    }
  });
}

std::uint64_t peer_ring_row(const CallData& d, const ExchangeRecord& record, std::uint32_t row) {
  return ring_row(d.view.routes, d.view.geo.cells, record.phase, record.phase_row0, row);
}
std::uint64_t peer_route_row(const CallData& d, const ExchangeRecord& record, std::uint32_t row) {
  return ring_row(d.view.routes, 3 * d.view.geo.cells, record.phase, record.phase_row0, row);
}

}  // namespace

void pull_x(const CallData& d, const Task& task, Worker& worker) {
  const StripeRows s = stripe_rows(d, task);
  Bf16* rows = d.x_rows(task.index);
  const RowTags tags = tags_of(d, task.index);
  const std::uint64_t width = d.view.hidden;
  const bool tag = d.view.kind == CallKind::kForward;  // the backward's dY rows bring the tags
  for_each_source(d, task, s, [&](std::uint32_t row, std::uint32_t source, std::uint32_t slot) {
    copy_row(rows + row * width,
             d.arena<Bf16>(source, d.layout->arena.x) + slot / d.view.routes.topk * width, width);
    count_read(d, worker.counts.dispatch, source, 1, width);
    if (tag) {
      tags.routes[row] = RowRoute{source, slot};
    }
  });
  zero_pads(d, rows, s);
  if (tag) {
    mark_pads(tags.routes, tags.weights, s);
  }
}

void pull_dy(const CallData& d, const Task& task, Worker& worker) {
  const StripeRows s = stripe_rows(d, task);
  Bf16* rows = d.dy_rows(task.index);
  const RowTags tags = tags_of(d, task.index);
  const std::uint64_t width = d.view.hidden;
  for_each_source(d, task, s, [&](std::uint32_t row, std::uint32_t source, std::uint32_t slot) {
    copy_row(rows + row * width,
             d.arena<Bf16>(source, d.layout->arena.dy) + slot / d.view.routes.topk * width, width);
    count_read(d, worker.counts.dy_dispatch, source, 1, width);
    tags.routes[row] = RowRoute{source, slot};
    tags.weights[row] = d.arena<float>(source, d.layout->arena.weights)[slot];
  });
  zero_pads(d, rows, s);
  mark_pads(tags.routes, tags.weights, s);
}

void push_x(const CallData& d, const Task& task, Worker& worker) {
  const ExchangeRecord& record = d.view.routes.records[task.index];
  const std::uint64_t width = d.view.hidden;
  auto* ring = d.arena<Bf16>(record.peer, d.layout->arena.x_ring);
  auto* routes = d.arena<RowRoute>(record.peer, d.layout->arena.routes);
  const bool tag = d.view.kind == CallKind::kForward;
  for_each_exchange(
      d, task, record_window(d.view.kind), [&](std::uint32_t slot, std::uint32_t row) {
        copy_row(ring + peer_ring_row(d, record, row) * width,
                 d.own<Bf16>(d.layout->arena.x) + slot / d.view.routes.topk * width, width);
        count_write(d, worker.counts.dispatch, record.peer, 1, width);
        if (tag) {
          routes[peer_route_row(d, record, row)] = RowRoute{d.view.routes.rank, slot};
        }
      });
}

void push_dy(const CallData& d, const Task& task, Worker& worker) {
  const ExchangeRecord& record = d.view.routes.records[task.index];
  const std::uint64_t width = d.view.hidden;
  auto* ring = d.arena<Bf16>(record.peer, d.layout->arena.dy_ring);
  auto* routes = d.arena<RowRoute>(record.peer, d.layout->arena.routes);
  auto* weights = d.arena<float>(record.peer, d.layout->arena.row_weights);
  for_each_exchange(d, task, Window::kAll, [&](std::uint32_t slot, std::uint32_t row) {
    copy_row(ring + peer_ring_row(d, record, row) * width,
             d.own<Bf16>(d.layout->arena.dy) + slot / d.view.routes.topk * width, width);
    count_write(d, worker.counts.dy_dispatch, record.peer, 1, width);
    const std::uint64_t place = peer_route_row(d, record, row);
    routes[place] = RowRoute{d.view.routes.rank, slot};
    weights[place] = d.own<float>(d.layout->arena.weights)[slot];
  });
}

void receive_x(const CallData& d, const Task& task) {
  const StripeRows s = stripe_rows(d, task);
  Bf16* rows = d.x_rows(task.index);
  if (d.is_saved(task.index)) {
    const Bf16* landed = d.own<Bf16>(d.layout->arena.x_ring) +
                         d.ring_row_of(d.view.routes.blocks[task.index]) * d.view.hidden;
    copy_row(rows + std::uint64_t{s.first} * d.view.hidden,
             landed + std::uint64_t{s.first} * d.view.hidden,
             std::uint64_t{s.real - s.first} * d.view.hidden);
  }
  zero_pads(d, rows, s);
  if (d.view.kind == CallKind::kForward) {
    const RowTags tags = tags_of(d, task.index);
    mark_pads(tags.routes, tags.weights, s);
  }
}

void receive_dy(const CallData& d, const Task& task) {
  const StripeRows s = stripe_rows(d, task);
  zero_pads(d, d.dy_rows(task.index), s);
  const RowTags tags = tags_of(d, task.index);
  mark_pads(tags.routes, tags.weights, s);
}

void store_out_row(const CallData& d, std::uint32_t block, std::uint32_t row, std::uint32_t col0,
                   const Bf16* values, std::uint32_t count, Worker& worker) {
  const std::uint64_t width = d.view.hidden;
  if (d.view.out_way != Combine::kScatter) {
    copy_row(d.out_rows(block) + row * width + col0, values, count);
    return;
  }
  const RowRoute route = tags_of(d, block).routes[row];
  copy_row(d.arena<Bf16>(route.owner, d.layout->arena.landing) + route.slot * width + col0, values,
           count);
  count_write(d, backward(d) ? worker.counts.dx_combine : worker.counts.combine, route.owner,
              col0 == 0 ? 1 : 0, count);
}

void store_dw(const CallData& d, std::uint32_t block, std::uint32_t row, float dw) {
  if (d.view.out_way != Combine::kScatter) {
    d.own<float>(d.layout->arena.dw_ring)[d.ring_row_of(d.view.routes.blocks[block]) + row] = dw;
    return;
  }
  const RowRoute route = tags_of(d, block).routes[row];
  d.arena<float>(route.owner, d.layout->arena.dw_landing)[route.slot] = dw;
}

void combine_push(const CallData& d, const Task& task, Worker& worker) {
  const StripeRows s = stripe_rows(d, task);
  const RowTags tags = tags_of(d, task.index);
  const std::uint64_t width = d.view.hidden;
  const Bf16* rows = d.out_rows(task.index);
  const float* dw =
      d.own<float>(d.layout->arena.dw_ring) + d.ring_row_of(d.view.routes.blocks[task.index]);
  for (std::uint32_t row = s.first; row < s.real; ++row) {
    const RowRoute route = tags.routes[row];
    copy_row(d.arena<Bf16>(route.owner, d.layout->arena.landing) + route.slot * width,
             rows + row * width, width);
    if (backward(d)) {
      d.arena<float>(route.owner, d.layout->arena.dw_landing)[route.slot] = dw[row];
    }
    count_write(d, backward(d) ? worker.counts.dx_combine : worker.counts.combine, route.owner, 1,
                width);
  }
}

void combine_pull(const CallData& d, const Task& task, Worker& worker) {
  const ExchangeRecord& record = d.view.routes.records[task.index];
  const std::uint64_t width = d.view.hidden;
  const auto* ring = d.arena<Bf16>(record.peer, d.layout->arena.out_ring);
  const auto* dw = d.arena<float>(record.peer, d.layout->arena.dw_ring);
  auto* landing = d.own<Bf16>(d.layout->arena.landing);
  auto* dw_landing = d.own<float>(d.layout->arena.dw_landing);
  for_each_exchange(d, task, Window::kAll, [&](std::uint32_t slot, std::uint32_t row) {
    const std::uint64_t place = peer_ring_row(d, record, row);
    copy_row(landing + slot * width, ring + place * width, width);
    if (backward(d)) {
      dw_landing[slot] = dw[place];
    }
    count_read(d, backward(d) ? worker.counts.dx_combine : worker.counts.combine, record.peer, 1,
               width);
  });
}

}  // namespace mok::cpu
