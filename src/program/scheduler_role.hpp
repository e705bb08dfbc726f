// scheduler_role.hpp: claims compute tickets, decodes them, waits until they may run, posts them.
#pragma once

#include "program/role_types.hpp"

namespace mok {

// The claim runs one ticket ahead: the next one is under way while this one is decoded and waited for.
// That keeps the proof of stamp.hpp: a ticket claimed early comes after one of no greater stamp.
// A task waits in its mailbox slot, not in registers, until it may run: only then is the slot full.
// Whatever happens, the last thing in the mailbox is a stop task, unless the pipe itself was aborted.
template <RoleEnv Env, class Geo, Pipe P, RoleBodies Bodies>
[[nodiscard]] MOK_HD RoleEnd scheduler_loop(Env& env, const RoleCall<Geo>& call,
                                            const Mailbox<P>& mailbox, Bodies& bodies,
                                            StepHint& hint) {
  const ComputeQueue<Geo> queue(call.view);
  const std::uint32_t size = queue.size();
  RoleEnd end = RoleEnd::kDone;
  PipeState at;
  std::uint32_t ticket = env.claim(call.share.compute_cursor);
  while (ticket < size) {
    const std::uint32_t next = env.claim(call.share.compute_cursor);
    if (wait_empty(mailbox.pipe, at) == PipeWait::kAborted) {
      return RoleEnd::kAborted;
    }
    Task& slot = mailbox.slots[at.stage];
    slot = queue.task(ticket, hint);
    bodies.claimed(slot, ticket, at.stage);
    end = env.aborted() ? RoleEnd::kAborted : role_end(wait_task(env, call.view, call.words, slot));
    if (end != RoleEnd::kDone) {
      break;
    }
    arrive_full(mailbox.pipe, at);
    at.advance(mailbox.pipe.num_stages());
    ticket = next;
  }
  // After a break the slot is still this role's, and the wait ends at once.
  if (wait_empty(mailbox.pipe, at) == PipeWait::kAborted) {
    return end == RoleEnd::kDone ? RoleEnd::kAborted : end;
  }
  mailbox.slots[at.stage] = Task{};
  arrive_full(mailbox.pipe, at);
  return end;
}

}  // namespace mok
