// call.hpp: the steps that forward, backward and recompute share: join, open, run, close.
#pragma once

#include "cpu/call_data.hpp"
#include "layer/impl.hpp"

namespace mok {

// One call of one rank while it runs. Methods are to be called in this order; each returns the failure
// of the group, which poisons the workspace.
class Call {
 public:
  // `identity`: of the context, the same at all ranks (context_identity below).
  Call(Workspace::Impl& ws, CallKind kind, std::int64_t tokens, std::uint64_t identity);

  // Waits until every rank's arena is there and agrees (first call), then until all have left the
  // previous call; zeroes counters and cursors.
  [[nodiscard]] Status open();
  // Copies what other ranks will read: rows of x or dY, router weights, own sorted slots.
  void stage_rows(std::uint64_t arena_offset, const Bf16* rows);
  void stage_slots(const std::uint32_t* sorted_slots, const float* weights);
  // Tells the others that everything is staged.
  void start();
  // Forward: sorts `ids`, exchanges counts, derives the tables in `storage`. Includes start().
  [[nodiscard]] Status build_routes(const std::int32_t* ids, const TableStorage& storage);
  // Backward and recompute: no counts are exchanged, but the ranks still tell which call this is, and
  // none goes on before all agree.
  [[nodiscard]] Status enter();
  // Runs both queues on the team and reports.
  [[nodiscard]] Result<CallReport> run();

  cpu::CallData data;

 private:
  [[nodiscard]] Status join();
  [[nodiscard]] Status result(WaitResult wait);
  [[nodiscard]] Status agree();

  Workspace::Impl& ws_;
  WordTable words_;
  cpu::CpuEnv env_;
  cpu::Clock::time_point begin_;
  cpu::Clock::time_point routed_;
};

// What tells contexts apart across ranks: the workspace that filled it (ranks make theirs in the same
// order), that workspace's number of the forward, and whether its saved rows have been released.
[[nodiscard]] std::uint64_t context_identity(std::uint64_t workspace, std::uint32_t sequence,
                                             Flagged released);

// Derives tables for another number of saved rows from the counts of `from` (a released context).
[[nodiscard]] RouteView derive_again(const Plan& plan, const RouteView& from,
                                     const TableStorage& to, std::uint64_t saved_rows);

}  // namespace mok
