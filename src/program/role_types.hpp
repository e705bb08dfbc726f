// role_types.hpp: what the five roles of a CTA share: mailbox, ring, hand-over, and what a body is.
//
// Barriers, with N = number of MMA arrivals (GPU: one a warp, 8; a thread that stands for all: 1):
// | pipe.edge      | completed by arrivals of               | who waits           | for                        |
// | mailbox.full   | scheduler, 1                           | loader, MMA, storer | the next task              |
// | mailbox.empty  | loader 1 + MMA N + storer 1            | scheduler           | a free slot                |
// | ring.full      | loader, 1 (and its bulk copies' bytes) | MMA                 | operands, or a lent stage  |
// | ring.empty     | MMA, N; of a lent stage storer, as N   | loader              | a free stage               |
// | handover.full  | MMA, N                                 | storer              | a finished stage           |
// | handover.empty | never used: see below                  |                     |                            |
//
// A task uses `num_steps` ring stages for its operands and then `num_outs` >= 1 stages that the loader
// lends to the epilogue: MMA leaves results there, the storer takes them out and gives the stage back.
// The hand-over has one stage for each ring stage and is walked in the order of lendings. A lent stage
// returns to the loader only after the storer, so MMA can never be a whole turn ahead of the storer, and
// the hand-over needs no `empty`. All pipes are walked in claim order, so they cannot deadlock. A stop
// task ends loader, MMA and storer after what came before it; comm ends by itself.
#pragma once

#include <concepts>
#include <cstdint>

#include "program/call.hpp"
#include "program/protocol.hpp"
#include "program/task.hpp"
#include "sync/env.hpp"
#include "sync/pipe.hpp"

namespace mok {

// SyncEnv, and the claim of a ticket: the cursor before an add of 1, ordering nothing.
template <class Env>
concept RoleEnv = SyncEnv<Env> && requires(Env env, std::uint32_t* cursor) {
  { env.claim(cursor) } -> std::same_as<std::uint32_t>;
};

// How a role ended. kFailed: this role itself reported a time-out or a mismatch.
enum class RoleEnd : std::uint32_t { kDone, kAborted, kFailed };

MOK_HD constexpr RoleEnd role_end(WaitResult result) {
  if (result == WaitResult::kReady) {
    return RoleEnd::kDone;
  }
  return result == WaitResult::kAborted ? RoleEnd::kAborted : RoleEnd::kFailed;
}

// What all roles of one rank share beside the protocol's words.
struct RoleShare {
  std::uint32_t* compute_cursor = nullptr;  // the next unclaimed ticket; 0 when a call opens
  std::uint32_t* comm_cursor = nullptr;
  // Storers and comm roles of the rank: those that touch other ranks.
  std::uint32_t num_leavers = 0;
};

// One call of one rank, as its roles see it. References: on the GPU they cost no registers.
template <class Geo>
struct RoleCall {
  const CallView<Geo>& view;
  const WordTable& words;
  const RoleShare& share;
};

// By one role of the rank, before or while the others start: this rank's inputs are staged, and
// owners that get no rows from here need not wait.
template <SyncEnv Env, class Geo>
MOK_HD void publish_opening(Env& env, const RoleCall<Geo>& call) {
  publish_to_all(env, call.view, call.words, Flag::kStart);
  settle_empty_owners(env, call.view, call.words);
}

template <Pipe P>
struct Mailbox {
  P pipe;
  Task* slots = nullptr;  // one a stage
};

// Ring of operand stages, and the way from MMA to storer.
template <Pipe P>
struct Ring {
  P stages;
  P handover;
  std::uint32_t mma_arrivals = 1;  // N of the table above
};

// Bodies: what a machine does for a task. `stage` is a ring stage, `slot` a mailbox stage.
//   num_steps(task), num_outs(task)  equal at all roles
//   claimed(task, ticket, slot)      scheduler, before the task is posted: for logs
//   received(task, slot)             storer, before the slot is free again: for logs
//   load(task, step, stage)          loader: starts the copies of operands into the stage
//   lend(task, out, stage)           loader: the stage goes to the epilogue (may be pre-loaded)
//   compute(task, step, stage)       MMA: returns when the stage's operands have been used
//   finish(task, out, stage)         MMA: leaves results in the stage
//   store(task, out, stage)          storer: returns when the stage may be overwritten
//   stored(task)                     storer: returns when all that was stored may be published
//   transfer(task, ticket)           comm: moves rows, returns when they may be published
template <class B>
concept RoleBodies = requires(B bodies, const Task task, std::uint32_t number) {
  { bodies.num_steps(task) } -> std::same_as<std::uint32_t>;
  { bodies.num_outs(task) } -> std::same_as<std::uint32_t>;
  bodies.claimed(task, number, number);
  bodies.received(task, number);
  bodies.load(task, number, number);
  bodies.lend(task, number, number);
  bodies.compute(task, number, number);
  bodies.finish(task, number, number);
  bodies.store(task, number, number);
  bodies.stored(task);
  bodies.transfer(task, number);
};

// Takes the next task; a stop task where the pipe was aborted. Pairs with: scheduler_loop().
template <Pipe P, class Note>
[[nodiscard]] MOK_HD Task receive(const Mailbox<P>& mailbox, PipeState& at, RoleEnd& end,
                                  Note note) {
  if (wait_full(mailbox.pipe, at) == PipeWait::kAborted) {
    end = RoleEnd::kAborted;
    return Task{};
  }
  const Task task = mailbox.slots[at.stage];
  if (task.kind != TaskKind::kStop) {
    note(task, at.stage);
  }
  arrive_empty(mailbox.pipe, at);
  at.advance(mailbox.pipe.num_stages());
  return task;
}

}  // namespace mok
