// token_bodies.hpp: bodies of the role loops that move tokens instead of rows and check each of
// them. Tokens are plain words, so that ThreadSanitizer sees every hand-over that lacks an order.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "program/roles.hpp"
#include "thread_env.hpp"

namespace mok::loopback {

enum class RoleName : std::uint32_t { kScheduler, kLoader, kMma, kStorer, kComm, kNumRoles };
inline constexpr std::uint32_t kNumRoles = static_cast<std::uint32_t>(RoleName::kNumRoles);
inline constexpr std::uint32_t kNumMma = 2;  // threads that play MMA together

using Token = std::uint64_t;

inline Token token_of(const Task& task, std::uint64_t salt = 0) {
  Token token = (static_cast<Token>(task.kind) << 58) ^ (Token{task.index} << 36) ^
                (Token{task.col} << 14) ^ task.phase ^ (salt << 48);
  token *= 0x9e3779b97f4a7c15ULL;
  return token ^ (token >> 29);
}

// What one queue's tickets turned into.
struct VisitLog {
  std::vector<std::atomic<std::uint32_t>> visits;
  std::vector<Task> tasks;
  explicit VisitLog(std::uint32_t size) : visits(size), tasks(size) {}
  void add(std::uint32_t ticket, const Task& task) {
    tasks[ticket] = task;
    visits[ticket].fetch_add(1, std::memory_order_relaxed);
  }
};

// One rank's memory: words of the protocol, logs, and token memory.
struct RankMemory {
  explicit RankMemory(const CallView<Geometry>& call_view)
      : view(call_view),
        scheduled(ComputeQueue<Geometry>(view).size()),
        stored(ComputeQueue<Geometry>(view).size()),
        moved(CommQueue<Geometry>(view).size()),
        counters(view.counters.size(), counter_value(view.epoch, 0)),
        flags(view.flags.size(), 0),
        x_ring(std::size_t{view.geo.cells} * view.routes.cell_rows / view.geo.stripe_rows),
        hidden(std::size_t{view.routes.num_blocks} * ComputeQueue<Geometry>(view).gate_up_tiles),
        landed(view.routes.num_ranks) {}

  CallView<Geometry> view;
  VisitLog scheduled, stored, moved;
  std::vector<std::uint32_t> counters;
  std::vector<std::uint64_t> flags;
  alignas(64) std::uint32_t compute_cursor = 0;
  alignas(64) std::uint32_t comm_cursor = 0;
  std::vector<Token> x_ring;               // one a stripe
  std::vector<Token> hidden;               // one a gate-up tile
  std::vector<std::vector<Token>> landed;  // [sender][block * out tiles + col]
};

// A role of one CTA that stops working after some tasks, until the call is aborted.
struct Stall {
  static constexpr std::uint32_t kNever = 0xffffffffU;
  std::uint32_t rank = kNever;
  RoleName role = RoleName::kNumRoles;
  std::uint32_t after = 0;  // tasks
};

struct World {
  std::vector<RankMemory*> ranks;
  SharedAbort abort;
  Stall stall;
  std::atomic<std::uint32_t> stalled{0};  // a role has begun to stall
  std::atomic<std::uint32_t> wrong{0};    // tokens or waits that did not hold
};

// Shared by the roles of one CTA.
struct CtaMemory {
  std::vector<Token> ring;             // loader -> MMA, by ring stage
  std::vector<Token> outs;             // MMA -> storer, by ring stage and MMA thread
  std::vector<std::uint32_t> tickets;  // by mailbox slot
};

// Each role has one of its own.
class TokenBodies {
 public:
  // `mma`: which of the MMA threads, where the role is MMA.
  TokenBodies(World& world, std::uint32_t rank, CtaMemory& cta, RoleName role, std::uint32_t mma)
      : world_(&world),
        me_(world.ranks[rank]),
        cta_(&cta),
        role_(role),
        mma_(mma),
        env_(world.abort, rank) {}

  [[nodiscard]] std::uint32_t num_steps(const Task& task) const { return task.col % 4; }
  [[nodiscard]] std::uint32_t num_outs(const Task& task) const { return 1 + task.index % 2; }

  void claimed(const Task& task, std::uint32_t ticket, std::uint32_t slot) {
    me_->scheduled.add(ticket, task);
    cta_->tickets[slot] = ticket;
    maybe_stall();
  }
  void received(const Task& task, std::uint32_t slot) const {
    me_->stored.add(cta_->tickets[slot], task);
  }
  void load(const Task& task, std::uint32_t step, std::uint32_t stage) {
    cta_->ring[stage] = token_of(task, step);
  }
  void lend(const Task& task, std::uint32_t out, std::uint32_t stage) {
    if (out == 0) {
      check_inputs(task);
      maybe_stall();
    }
    cta_->ring[stage] = token_of(task, 64 + out);
  }
  void compute(const Task& task, std::uint32_t step, std::uint32_t stage) const {
    expect(cta_->ring[stage] == token_of(task, step));
  }
  void finish(const Task& task, std::uint32_t out, std::uint32_t stage) {
    expect(cta_->ring[stage] == token_of(task, 64 + out));
    if (out == 0) {
      maybe_stall();
    }
    cta_->outs[stage * kNumMma + mma_] = token_of(task, 128 + out);
  }
  void store(const Task& task, std::uint32_t out, std::uint32_t stage) const {
    for (std::uint32_t mma = 0; mma < kNumMma; ++mma) {
      expect(cta_->outs[stage * kNumMma + mma] == token_of(task, 128 + out));
    }
  }
  void stored(const Task& task) {
    const CallView<Geometry>& v = me_->view;
    const ComputeQueue<Geometry> queue(v);
    if (task.kind == TaskKind::kGateUp) {
      me_->hidden[std::size_t{task.index} * queue.gate_up_tiles + task.col] = token_of(task);
    }
    if (task.kind == TaskKind::kDown && v.out_way == Combine::kScatter) {
      for_each_owner(v.routes, task.index, 0, v.routes.blocks[task.index].rows,
                     [&](std::uint32_t owner, std::uint32_t) {
                       landing(owner, v.routes.rank, task.index, task.col) = token_of(task);
                     });
    }
    maybe_stall();
  }
  void transfer(const Task& task, std::uint32_t ticket) {
    expect(waits_hold(task));
    me_->moved.add(ticket, task);
    if (task.kind == TaskKind::kPullX || task.kind == TaskKind::kReceiveX) {
      x_stripe(task.index, task.col) = x_token(task.index, task.col);
    }
    maybe_stall();
  }

 private:
  void expect(bool holds) const {
    if (!holds) {
      world_->wrong.fetch_add(1, std::memory_order_relaxed);
    }
  }
  void maybe_stall() {
    if (me_->view.routes.rank != world_->stall.rank || role_ != world_->stall.role ||
        num_tasks_++ < world_->stall.after) {
      return;
    }
    world_->stalled.store(1, std::memory_order_relaxed);
    while (!env_.aborted()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  [[nodiscard]] Token& landing(std::uint32_t owner, std::uint32_t sender, std::uint32_t block,
                               std::uint32_t col) const {
    const std::uint32_t tiles = ComputeQueue<Geometry>(me_->view).out_tiles;
    return world_->ranks[owner]->landed[sender][std::size_t{block} * tiles + col];
  }
  static Token x_token(std::uint32_t block, std::uint32_t stripe) {
    return token_of(Task{TaskKind::kPullX, block, stripe, 0});
  }
  [[nodiscard]] Token& x_stripe(std::uint32_t block, std::uint32_t stripe) const {
    const CallView<Geometry>& v = me_->view;
    const BlockRecord& record = v.routes.blocks[block];
    const std::uint64_t row = ring_row(v.routes, v.geo.cells, record.phase,
                                       first_row(v.routes, record.phase), record.row0);
    return me_->x_ring[row / v.geo.stripe_rows + stripe];
  }

  // What the scheduler has waited for must hold, and what it stands for must be there.
  void check_inputs(const Task& task) const {
    expect(waits_hold(task));
    const CallView<Geometry>& v = me_->view;
    const ComputeQueue<Geometry> queue(v);
    if (task.kind == TaskKind::kGateUp) {
      const std::uint32_t stripes = v.routes.blocks[task.index].padded_rows / v.geo.stripe_rows;
      for (std::uint32_t stripe = 0; stripe < stripes; ++stripe) {
        expect(x_stripe(task.index, stripe) == x_token(task.index, stripe));
      }
    }
    if (task.kind == TaskKind::kDown) {
      for (std::uint32_t col = 0; col < queue.gate_up_tiles; ++col) {
        const Task from{TaskKind::kGateUp, task.index, col, task.phase};
        expect(me_->hidden[std::size_t{task.index} * queue.gate_up_tiles + col] == token_of(from));
      }
    }
    if (task.kind == TaskKind::kReduce && v.kind == CallKind::kForward &&
        v.out_way == Combine::kScatter) {
      check_landed(queue.out_tiles);
    }
  }
  void check_landed(std::uint32_t tiles) const {
    const std::uint32_t own = me_->view.routes.rank;
    for (std::uint32_t sender = 0; sender < me_->view.routes.num_ranks; ++sender) {
      const RouteView& r = world_->ranks[sender]->view.routes;
      for (std::uint32_t block = 0; block < r.num_blocks; ++block) {
        for_each_owner(r, block, 0, r.blocks[block].rows, [&](std::uint32_t owner, std::uint32_t) {
          for (std::uint32_t col = 0; owner == own && col < tiles; ++col) {
            expect(landing(own, sender, block, col) ==
                   token_of(Task{TaskKind::kDown, block, col, r.blocks[block].phase}));
          }
        });
      }
    }
  }
  [[nodiscard]] bool waits_hold(const Task& task) const {
    const CallView<Geometry>& v = me_->view;
    const WaitList list = waits_of(v, task);
    for (std::uint32_t i = 0; i < list.num_counters; ++i) {
      const std::uint32_t value = env_.load_acquire(&me_->counters[list.counters[i].counter]);
      if (!counter_reached(value, counter_value(v.epoch, list.counters[i].count))) {
        return false;
      }
    }
    for (std::uint32_t rank = list.flags.first; list.num_flags > 0 && rank <= list.flags.last;
         ++rank) {
      const std::uint32_t at = v.flags.index(list.flags.flag, rank, list.flags.cell);
      if (!flag_reached(env_.load_acquire(&me_->flags[at]),
                        flag_value(v.epoch, list.flags.payload))) {
        return false;
      }
    }
    return true;
  }

  World* world_;
  RankMemory* me_;
  CtaMemory* cta_;
  RoleName role_;
  std::uint32_t mma_;
  ThreadEnv env_;
  std::uint32_t num_tasks_ = 0;
};
static_assert(RoleBodies<TokenBodies>);

}  // namespace mok::loopback
