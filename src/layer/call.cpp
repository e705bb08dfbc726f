// call.cpp: the course of one call on the CPU machine.
#include "layer/call.hpp"

#include <algorithm>
#include <cstring>
#include <exception>
#include <utility>

namespace mok {

namespace {

double milliseconds(cpu::Clock::duration time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

void add(TransferCounts& to, const TransferCounts& from) {
  to.bytes += from.bytes;
  to.remote_reads += from.remote_reads;
  to.remote_writes += from.remote_writes;
}

std::int64_t replayed_rows(const RouteView& routes) {
  std::int64_t rows = 0;
  for (std::uint32_t block = routes.saved_blocks; block < routes.num_blocks; ++block) {
    rows += routes.blocks[block].rows;
  }
  return rows;
}

// The first item of two agreement texts that differs.
std::string disagreement(int peer, const std::string& theirs, int rank, const std::string& ours) {
  const auto at = static_cast<std::size_t>(
      std::mismatch(theirs.begin(), theirs.end(), ours.begin(), ours.end()).first - theirs.begin());
  const std::size_t comma = theirs.rfind(", ", at);
  const std::size_t first = comma == std::string::npos ? 0 : comma + 2;
  const auto item = [first](const std::string& text) {
    return text.substr(first, text.find(", ", first) - first);
  };
  return " (rank " + std::to_string(peer) + " has " + item(theirs) + ", rank " +
         std::to_string(rank) + " has " + item(ours) + ")";
}

BuildInput build_input(const Plan& plan, int rank, std::uint64_t saved_rows) {
  BuildInput in;
  in.rank = static_cast<std::uint32_t>(rank);
  in.num_ranks = static_cast<std::uint32_t>(plan.num_ranks);
  in.experts = static_cast<std::uint32_t>(plan.shape.experts);
  in.topk = static_cast<std::uint32_t>(plan.shape.topk);
  in.rule = plan.partition_rule(saved_rows);
  return in;
}

}  // namespace

RouteView derive_again(const Plan& plan, const RouteView& from, const TableStorage& to,
                       std::uint64_t saved_rows) {
  const std::uint64_t words = std::uint64_t{from.num_ranks} * from.experts;
  std::copy(from.counts, from.counts + words, to.words(to.at.counts));
  std::copy(from.sorted_slots, from.sorted_slots + from.own_offset[from.experts],
            to.words(to.at.sorted_slots));
  return derive_tables(plan.geo, build_input(plan, static_cast<int>(from.rank), saved_rows), to);
}

std::uint64_t context_identity(std::uint64_t workspace, std::uint32_t sequence, Flagged released) {
  // The start flag has 28 bits for it: mixed (splitmix64's finaliser), so that all of them tell.
  std::uint64_t x =
      (workspace << 33U) ^ (std::uint64_t{sequence} << 1U) ^ static_cast<std::uint64_t>(released);
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31U);
}

Call::Call(Workspace::Impl& ws, CallKind kind, std::int64_t tokens, std::uint64_t identity)
    : ws_(ws), env_(ws.sync, 0), begin_(cpu::Clock::now()), routed_(begin_) {
  const Plan& plan = ws.plan;
  cpu::View& view = data.view;
  view.geo = plan.geo;
  view.kind = kind;
  view.epoch = ws.epoch + 1;
  view.start_word =
      start_payload(static_cast<std::uint32_t>(kind), static_cast<std::uint32_t>(identity));
  view.tokens = static_cast<std::uint32_t>(tokens);
  view.hidden = static_cast<std::uint32_t>(plan.shape.hidden);
  view.intermediate = static_cast<std::uint32_t>(plan.shape.intermediate);
  view.shared_intermediate = static_cast<std::uint32_t>(plan.shape.shared_intermediate);
  view.output_gate = plan.shape.output_gate ? Flagged::kYes : Flagged::kNo;
  view.x_way = plan.options.dispatch;
  view.dy_way = plan.options.dy_dispatch;
  view.out_way = kind == CallKind::kBackward ? plan.options.dx_combine : plan.options.combine;
  view.flags = plan.flags;
  view.counters = plan.counters;
  view.routes.rank = static_cast<std::uint32_t>(ws.rank);
  view.routes.num_ranks = static_cast<std::uint32_t>(plan.num_ranks);
  data.sizes = &plan.sizes;
  data.layout = &plan.layout;
  data.local = ws.local.data();
  data.engine = ws.engine;
  if (plan.shape.swiglu_limit) {
    data.limit = *plan.shape.swiglu_limit;
  }
}

Status Call::result(WaitResult wait) {
  if (wait == WaitResult::kReady) {
    return {};
  }
  ws_.failed = true;
  Status failure = ws_.set->failure();
  return failure.ok() ? Status::wait_failed(Code::kAborted, {}) : failure;
}

Status Call::join() {
  if (!ws_.arenas.empty()) {
    return {};
  }
  const int num_ranks = ws_.plan.num_ranks;
  const auto deadline = begin_ + ws_.sync.join_deadline;
  for (int peer = 0; peer < num_ranks; ++peer) {
    while (!ws_.set->joined(peer)) {
      if (ws_.set->failed()) {
        return ws_.set->failure();
      }
      if (cpu::Clock::now() > deadline) {
        Status late = Status::wait_failed(
            Code::kTimeout, {peer, site_name(Site::kJoin), 1, 0, data.view.epoch, ws_.rank});
        ws_.set->fail(late);
        return late;
      }
      env_.pause();
    }
    if (ws_.set->agreement(peer) != ws_.set->agreement(ws_.rank)) {
      const std::string what =
          disagreement(peer, ws_.set->agreement(peer), ws_.rank, ws_.set->agreement(ws_.rank));
      Status mismatch = Status::wait_failed(
          Code::kCallMismatch,
          {peer, site_name(Site::kJoin) + what, 1, 0, data.view.epoch, ws_.rank});
      ws_.set->fail(mismatch);
      return mismatch;
    }
  }
  for (int peer = 0; peer < num_ranks; ++peer) {
    ws_.arenas.push_back(ws_.set->base(peer));
    ws_.peer_flags.push_back(
        reinterpret_cast<std::uint64_t*>(ws_.set->base(peer) + ws_.plan.layout.arena.flags));
  }
  return {};
}

Status Call::open() {
  ws_.epoch = data.view.epoch;
  ws_.sync.epoch = data.view.epoch;
  if (Status failure = ws_.set->failure(); !failure.ok()) {
    // Every rank returns the failure itself once, in whichever call it learns of it.
    return std::exchange(ws_.failed, true) ? Status::poisoned(failure) : failure;
  }
  if (Status status = join(); !status.ok()) {
    ws_.failed = true;
    return status;
  }
  data.arenas = ws_.arenas.data();
  words_.peer_flags = ws_.peer_flags.data();
  words_.counters =
      reinterpret_cast<std::uint32_t*>(ws_.local.data() + ws_.plan.layout.local.counters);
  if (ws_.num_calls++ > 0) {
    const WaitResult wait = wait_left(env_, data.view, words_);
    env_.set_state(Site::kNone, data.view.routes.rank);
    if (wait != WaitResult::kReady) {
      return result(wait);
    }
  }
  std::fill_n(words_.counters, ws_.plan.counters.size(), counter_value(data.view.epoch, 0));
  auto* cursors =
      reinterpret_cast<std::uint32_t*>(ws_.local.data() + ws_.plan.layout.local.cursors);
  std::fill_n(cursors, 32, 0U);
  for (cpu::Worker& worker : ws_.workers) {
    worker.counts = {};
  }
  return {};
}

void Call::stage_rows(std::uint64_t arena_offset, const Bf16* rows) {
  if (data.view.tokens > 0) {
    std::memcpy(ws_.arena() + arena_offset, rows,
                std::uint64_t{data.view.tokens} * data.view.hidden * sizeof(Bf16));
  }
}

void Call::stage_slots(const std::uint32_t* sorted_slots, const float* weights) {
  const std::uint64_t slots = std::uint64_t{data.view.tokens} * ws_.plan.sizes.topk;
  const ArenaLayout& at = ws_.plan.layout.arena;
  if (slots > 0) {
    std::memcpy(ws_.arena() + at.sorted_slots, sorted_slots, slots * sizeof(std::uint32_t));
    std::memcpy(ws_.arena() + at.weights, weights, slots * sizeof(float));
  }
}

void Call::start() {
  publish_to_all(env_, data.view, words_, Flag::kStart);
}

Status Call::agree() {
  const WaitResult wait = wait_for_all(env_, data.view, words_, Flag::kCounts, Site::kCounts);
  env_.set_state(Site::kNone, data.view.routes.rank);
  return result(wait);
}

// Without this wait only ranks that exchange rows would find out that they have paired different calls,
// and a rank that enters late would look like one that has stalled.
Status Call::enter() {
  publish_to_all(env_, data.view, words_, Flag::kCounts);
  return agree();
}

Status Call::build_routes(const std::int32_t* ids, const TableStorage& storage) {
  const Plan& plan = ws_.plan;
  const auto experts = static_cast<std::uint32_t>(plan.shape.experts);
  const auto rank = static_cast<std::uint32_t>(ws_.rank);
  const std::uint64_t own_row = std::uint64_t{rank} * experts;
  const ArenaLayout& at = plan.layout.arena;
  std::uint32_t* counts = storage.words(storage.at.counts);
  std::uint32_t* sorted = storage.words(storage.at.sorted_slots);
  sort_slots(ids, data.view.tokens * static_cast<std::uint32_t>(plan.shape.topk), experts,
             counts + own_row, sorted,
             reinterpret_cast<std::uint32_t*>(ws_.local.data() + plan.layout.local.sort));
  for (std::uint32_t peer = 0; peer < data.view.routes.num_ranks; ++peer) {
    std::memcpy(ws_.arenas[peer] + at.counts + own_row * sizeof(std::uint32_t), counts + own_row,
                experts * sizeof(std::uint32_t));
  }
  publish_to_all(env_, data.view, words_, Flag::kCounts);
  stage_slots(sorted, data.router);
  start();
  if (Status status = agree(); !status.ok()) {
    return status;
  }
  std::memcpy(counts, ws_.arena() + at.counts,
              std::uint64_t{data.view.routes.num_ranks} * experts * sizeof(std::uint32_t));
  data.view.routes =
      derive_tables(plan.geo, build_input(plan, ws_.rank, plan.sizes.saved_rows), storage);
  return {};
}

Result<CallReport> Call::run() {
  if (data.view.kind != CallKind::kRecompute) {
    settle_empty_owners(env_, data.view, words_);
  }
  routed_ = cpu::Clock::now();
  auto* cursors =
      reinterpret_cast<std::uint32_t*>(ws_.local.data() + ws_.plan.layout.local.cursors);
  cpu::CallRun run{&data, words_, &ws_.sync, cursors, cursors + 16, ws_.hook ? &ws_.hook : nullptr};
  std::vector<WaitResult> results(ws_.workers.size(), WaitResult::kReady);
  ws_.team->run([&](std::uint32_t worker) {
    try {
      results[worker] = cpu::run_worker(run, worker, ws_.workers[worker]);
    } catch (const std::exception& error) {  // out of memory for bookkeeping: stop the group
      results[worker] = WaitResult::kAborted;
      ws_.set->fail(Status::environment("call", error.what(), "the system gave no resources"));
    }
  });
  for (const WaitResult worker : results) {
    if (worker != WaitResult::kReady) {
      return failure(result(worker));
    }
  }
  const RouteView& routes = data.view.routes;
  CallReport report;
  report.epoch = data.view.epoch;
  report.rows = routes.num_rows;
  report.padded_rows = routes.phases[routes.num_phases].row0;
  report.phases = routes.num_phases;
  report.ring_turns = ceil_div(routes.num_phases, ws_.plan.geo.cells);
  report.replayed_rows = data.view.kind == CallKind::kBackward ? replayed_rows(routes) : 0;
  for (const cpu::Worker& worker : ws_.workers) {
    add(report.dispatch, worker.counts.dispatch);
    add(report.combine, worker.counts.combine);
    add(report.dy_dispatch, worker.counts.dy_dispatch);
    add(report.dx_combine, worker.counts.dx_combine);
  }
  report.route_ms = milliseconds(routed_ - begin_);
  report.run_ms = milliseconds(cpu::Clock::now() - routed_);
  return report;
}

}  // namespace mok
