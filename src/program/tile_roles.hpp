// tile_roles.hpp: loader, MMA and storer: one tile after the other, from the mailbox to the
// publication. None of them waits on global memory; role_types.hpp has the table of barriers.
#pragma once

#include "program/role_types.hpp"

namespace mok {

template <Pipe M, Pipe P, RoleBodies Bodies>
[[nodiscard]] MOK_HD RoleEnd loader_loop(const Mailbox<M>& mailbox, const Ring<P>& ring,
                                         Bodies& bodies) {
  RoleEnd end = RoleEnd::kDone;
  PipeState mail;
  PipeState at;
  for (;;) {
    const Task task = receive(mailbox, mail, end, [](const Task&, std::uint32_t) {});
    if (task.kind == TaskKind::kStop) {
      return end;
    }
    const std::uint32_t num_steps = bodies.num_steps(task);
    const std::uint32_t num_stages = num_steps + bodies.num_outs(task);
    for (std::uint32_t i = 0; i < num_stages; ++i) {
      if (wait_empty(ring.stages, at) == PipeWait::kAborted) {
        return RoleEnd::kAborted;
      }
      if (i < num_steps) {
        bodies.load(task, i, at.stage);
      } else {
        bodies.lend(task, i - num_steps, at.stage);
      }
      arrive_full(ring.stages, at);
      at.advance(ring.stages.num_stages());
    }
  }
}

template <Pipe M, Pipe P, RoleBodies Bodies>
[[nodiscard]] MOK_HD RoleEnd mma_loop(const Mailbox<M>& mailbox, const Ring<P>& ring,
                                      Bodies& bodies) {
  RoleEnd end = RoleEnd::kDone;
  PipeState mail;
  PipeState at;
  PipeState given;
  for (;;) {
    const Task task = receive(mailbox, mail, end, [](const Task&, std::uint32_t) {});
    if (task.kind == TaskKind::kStop) {
      return end;
    }
    const std::uint32_t num_steps = bodies.num_steps(task);
    for (std::uint32_t step = 0; step < num_steps; ++step) {
      if (wait_full(ring.stages, at) == PipeWait::kAborted) {
        return RoleEnd::kAborted;
      }
      bodies.compute(task, step, at.stage);
      arrive_empty(ring.stages, at);
      at.advance(ring.stages.num_stages());
    }
    const std::uint32_t num_outs = bodies.num_outs(task);
    for (std::uint32_t out = 0; out < num_outs; ++out) {
      if (wait_full(ring.stages, at) == PipeWait::kAborted) {
        return RoleEnd::kAborted;
      }
      bodies.finish(task, out, at.stage);
      arrive_full(ring.handover, given);
      at.advance(ring.stages.num_stages());
      given.advance(ring.handover.num_stages());
    }
  }
}

template <RoleEnv Env, class Geo, Pipe M, Pipe P, RoleBodies Bodies>
[[nodiscard]] MOK_HD RoleEnd storer_loop(Env& env, const RoleCall<Geo>& call,
                                         const Mailbox<M>& mailbox, const Ring<P>& ring,
                                         Bodies& bodies) {
  RoleEnd end = RoleEnd::kDone;
  PipeState mail;
  PipeState at;
  PipeState given;
  for (;;) {
    const Task task = receive(mailbox, mail, end, [&](const Task& mailed, std::uint32_t slot) {
      bodies.received(mailed, slot);
    });
    if (task.kind == TaskKind::kStop) {
      break;
    }
    at.skip(bodies.num_steps(task), ring.stages.num_stages());
    const std::uint32_t num_outs = bodies.num_outs(task);
    for (std::uint32_t out = 0; out < num_outs; ++out) {
      if (wait_full(ring.handover, given) == PipeWait::kAborted) {
        return RoleEnd::kAborted;
      }
      bodies.store(task, out, at.stage);
      arrive_empty(ring.stages, at, ring.mma_arrivals);
      at.advance(ring.stages.num_stages());
      given.advance(ring.handover.num_stages());
    }
    bodies.stored(task);
    publish_task(env, call.view, call.words, task);
  }
  if (end == RoleEnd::kDone && !env.aborted()) {
    leave(env, call.view, call.words, call.share.num_leavers);
  }
  return end;
}

}  // namespace mok
