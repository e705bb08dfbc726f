// scheduler_role.hpp: claims compute tickets, decodes them, waits until they may run, posts them.
#pragma once

#include "program/role_types.hpp"

namespace mok {

// The claim runs one ticket ahead: the next one is under way while this one is decoded and waited
// for. That keeps the proof of stamp.hpp: a ticket claimed early comes after one of no greater
// stamp. Whatever happens, the last thing in the mailbox is a stop task, unless the pipe itself was
// aborted.
template <RoleEnv Env, class Geo, Pipe P, RoleBodies Bodies>
[[nodiscard]] MOK_HD RoleEnd scheduler_loop(Env& env, const RoleCall<Geo>& call,
                                            const Mailbox<P>& mailbox, Bodies& bodies) {
  const ComputeQueue<Geo> queue(call.view);
  const std::uint32_t size = queue.size();
  RoleEnd end = RoleEnd::kDone;
  PipeState at;
  std::uint32_t ticket = env.claim(call.share.compute_cursor);
  while (ticket < size) {
    const std::uint32_t next = env.claim(call.share.compute_cursor);
    const bool aborted = env.aborted();  // looked at before the decoding, used after it: latency
    const Task task = queue.task(ticket);
    end = aborted ? RoleEnd::kAborted : role_end(wait_task(env, call.view, call.words, task));
    if (end != RoleEnd::kDone) {
      break;
    }
    if (post(mailbox, at, task, [&](std::uint32_t slot) { bodies.claimed(task, ticket, slot); }) ==
        PipeWait::kAborted) {
      return RoleEnd::kAborted;
    }
    ticket = next;
  }
  if (post(mailbox, at, Task{}, [](std::uint32_t) {}) == PipeWait::kAborted &&
      end == RoleEnd::kDone) {
    end = RoleEnd::kAborted;
  }
  return end;
}

}  // namespace mok
