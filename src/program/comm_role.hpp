// comm_role.hpp: claims comm tickets, waits, moves rows, publishes. It needs no mailbox.
#pragma once

#include "program/role_types.hpp"

namespace mok {

template <RoleEnv Env, class Geo, RoleBodies Bodies>
[[nodiscard]] MOK_HD RoleEnd comm_loop(Env& env, const RoleCall<Geo>& call, Bodies& bodies,
                                       StepHint& hint) {
  const CommQueue<Geo> queue(call.view);
  const std::uint32_t size = queue.size();
  std::uint32_t ticket = env.claim(call.share.comm_cursor);
  while (ticket < size) {
    const std::uint32_t next =
        env.claim(call.share.comm_cursor);  // one ahead, as the scheduler does
    const Task task = queue.task(ticket, hint);
    if (env.aborted()) {
      return RoleEnd::kAborted;
    }
    const RoleEnd end = role_end(wait_task(env, call.view, call.words, task));
    if (end != RoleEnd::kDone) {
      return end;
    }
    bodies.transfer(task, ticket);
    publish_task(env, call.view, call.words, task);
    ticket = next;
  }
  if (env.aborted()) {
    return RoleEnd::kAborted;
  }
  leave(env, call.view, call.words, call.share.num_leavers);
  return RoleEnd::kDone;
}

}  // namespace mok
