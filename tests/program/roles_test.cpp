// roles_test.cpp: the role loops as threads: R ranks x CTAs x five roles (MMA twice, as two warps would
// play it), with bodies that move tokens.
#include "program/roles.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "cpu/thread_pipe.hpp"
#include "expected_words.hpp"
#include "loopback_world.hpp"
#include "thread_env.hpp"
#include "token_bodies.hpp"

namespace mok::loopback {
namespace {

constexpr Geometry kSmall{.block_rows = 8,
                          .row_pad = 4,
                          .tile_cols = 16,
                          .wgrad_rows = 16,
                          .stripe_rows = 2,
                          .token_stripe = 4,
                          .partial_cols = 8,
                          .look_ahead = 2,
                          .segment_rows = 32,
                          .cells = 3};
constexpr std::uint64_t kSeed = 20'261'201;

WorldSetup small_setup(std::uint32_t num_ranks) {
  WorldSetup setup;
  setup.num_ranks = num_ranks;
  setup.min_phase_tiles = 4;
  setup.layer.max_tokens = 24;
  setup.layer.hidden = 40;
  setup.layer.intermediate = 24;
  setup.layer.shared_intermediate = 24;
  setup.layer.experts = 7;
  setup.layer.topk = 3;
  setup.layer.output_gate = true;
  setup.options.ring_rows = 3 * 24;
  setup.options.saved_rows = 32;
  for (std::uint32_t rank = 0; rank < num_ranks; ++rank) {
    setup.tokens.push_back(24 - 5 * rank);
  }
  return setup;
}

LoopbackWorld<Geometry> small_world(std::uint32_t num_ranks) {
  const WorldSetup setup = small_setup(num_ranks);
  std::vector<std::vector<std::int32_t>> ids;
  for (std::uint32_t rank = 0; rank < num_ranks; ++rank) {
    ids.push_back(draw_distinct_ids(setup.tokens[rank], 7, 3, kSeed + rank));
    ids.back()[5] = -1;             // no route
    ids.back()[7] = ids.back()[6];  // a duplicate
  }
  return {kSmall, setup, ids};
}

// Everything of one call: memory of the ranks, the CTAs' pipes, the threads' ends.
class Machine {
 public:
  static constexpr PipeShape kMailbox{2, 1, 2 + kNumMma};
  static constexpr PipeShape kRing{4, 1, kNumMma};

  Machine(const LoopbackWorld<Geometry>& routes, const CallSetup& call, std::uint32_t ctas)
      : num_ctas_(ctas) {
    for (std::uint32_t rank = 0; rank < routes.num_ranks(); ++rank) {
      views_.push_back(routes.view(rank, call));
      memory_.push_back(std::make_unique<RankMemory>(views_.back()));
      world_.ranks.push_back(memory_.back().get());
      peer_flags_.push_back(memory_.back()->flags.data());
    }
    const std::uint32_t tiles = ComputeQueue<Geometry>(views_[0]).out_tiles;
    for (RankMemory* owner : world_.ranks) {
      for (std::size_t sender = 0; sender < memory_.size(); ++sender) {
        owner->landed[sender].resize(std::size_t{views_[sender].routes.num_blocks} * tiles);
      }
    }
  }

  World& world() { return world_; }
  [[nodiscard]] std::uint32_t num_leavers() const { return 2 * num_ctas_; }
  [[nodiscard]] const std::vector<CallView<Geometry>>& views() const { return views_; }

  // Returns how the roles ended, of all ranks and CTAs.
  std::vector<RoleEnd> run() {
    struct Cta {
      ThreadPipeMemory mailbox{kMailbox};
      ThreadPipeMemory ring{kRing};
      ThreadPipeMemory handover{PipeShape{kRing.num_stages, kNumMma, 1}};
      std::array<Task, kMailbox.num_stages> slots;
      CtaMemory memory{std::vector<Token>(kRing.num_stages),
                       std::vector<Token>(kRing.num_stages* kNumMma),
                       std::vector<std::uint32_t>(kMailbox.num_stages)};
    };
    const std::size_t num_ctas = memory_.size() * num_ctas_;
    std::vector<std::unique_ptr<Cta>> ctas;
    std::vector<RoleEnd> ends(num_ctas * kSeats.size());
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < num_ctas; ++i) {
      ctas.push_back(std::make_unique<Cta>());
      const auto rank = static_cast<std::uint32_t>(i % memory_.size());
      for (std::size_t seat = 0; seat < kSeats.size(); ++seat) {
        threads.emplace_back(
            [this, &cta = *ctas[i], &end = ends[i * kSeats.size() + seat], rank, seat,
             opens = i < memory_.size()] { end = run_role(cta, rank, kSeats[seat], opens); });
      }
    }
    threads.clear();
    return ends;
  }

 private:
  // The threads of a CTA.
  struct Seat {
    RoleName role;
    std::uint32_t mma;
  };
  static constexpr std::array<Seat, kNumRoles - 1 + kNumMma> kSeats = {{{RoleName::kScheduler, 0},
                                                                        {RoleName::kLoader, 0},
                                                                        {RoleName::kMma, 0},
                                                                        {RoleName::kMma, 1},
                                                                        {RoleName::kStorer, 0},
                                                                        {RoleName::kComm, 0}}};
  using ThreadPipeMemory = cpu::ThreadPipeMemory;
  using RolePipe = cpu::ThreadPipe<ThreadEnv>;

  template <class Cta>
  RoleEnd run_role(Cta& cta, std::uint32_t rank, const Seat& seat, bool opens) {
    ThreadEnv env(world_.abort, rank);
    RankMemory& own = *memory_[rank];
    const WordTable words{own.counters.data(), peer_flags_.data()};
    const RoleShare share{&own.compute_cursor, &own.comm_cursor, num_leavers()};
    const RoleCall<Geometry> call{own.view, words, share};
    const Mailbox<RolePipe> mailbox{RolePipe(cta.mailbox, env), cta.slots.data()};
    const Ring<RolePipe> ring{RolePipe(cta.ring, env), RolePipe(cta.handover, env), kNumMma};
    TokenBodies bodies(world_, rank, cta.memory, seat.role, seat.mma);
    StepHint hint;
    switch (seat.role) {
      case RoleName::kScheduler: return scheduler_loop(env, call, mailbox, bodies, hint);
      case RoleName::kLoader: return loader_loop(mailbox, ring, bodies);
      case RoleName::kMma: return mma_loop(mailbox, ring, bodies);
      case RoleName::kStorer: return storer_loop(env, call, mailbox, ring, bodies);
      default:
        if (opens) {
          publish_opening(env, call);
        }
        return comm_loop(env, call, bodies, hint);
    }
  }

  std::uint32_t num_ctas_;
  std::vector<CallView<Geometry>> views_;
  std::vector<std::unique_ptr<RankMemory>> memory_;
  std::vector<std::uint64_t*> peer_flags_;
  World world_;
};

template <class Queue>
void expect_visited_once(const Queue& queue, const VisitLog& log) {
  ASSERT_EQ(queue.size(), log.visits.size());
  ASSERT_GT(queue.size(), 0U);
  for (std::uint32_t ticket = 0; ticket < queue.size(); ++ticket) {
    EXPECT_EQ(log.visits[ticket].load(), 1U) << "ticket " << ticket;
    EXPECT_TRUE(log.tasks[ticket] == queue.task(ticket)) << "ticket " << ticket;
  }
}

void expect_clean(Machine& machine, const std::vector<RoleEnd>& ends) {
  for (const RoleEnd end : ends) {
    EXPECT_EQ(end, RoleEnd::kDone);
  }
  EXPECT_EQ(machine.world().abort.reports.load(), 0U);
  EXPECT_EQ(machine.world().wrong.load(), 0U);
  const std::vector<RankWords> expected = expected_words(machine.views(), machine.num_leavers());
  for (std::size_t rank = 0; rank < expected.size(); ++rank) {
    const RankMemory& memory = *machine.world().ranks[rank];
    SCOPED_TRACE("rank " + std::to_string(rank));
    expect_visited_once(ComputeQueue<Geometry>(memory.view), memory.scheduled);
    expect_visited_once(ComputeQueue<Geometry>(memory.view), memory.stored);
    expect_visited_once(CommQueue<Geometry>(memory.view), memory.moved);
    EXPECT_EQ(memory.counters, expected[rank].counters);
    EXPECT_EQ(memory.flags, expected[rank].flags);
  }
}

std::string call_name(CallKind kind) {
  return kind == CallKind::kForward    ? "forward"
         : kind == CallKind::kBackward ? "backward"
                                       : "recompute";
}

using Case = std::tuple<std::uint32_t, CallKind, Dispatch, Combine>;

std::string case_name(const testing::TestParamInfo<Case>& test) {
  const auto& [num_ranks, kind, way, out_way] = test.param;
  return "R" + std::to_string(num_ranks) + "_" + call_name(kind) + "_" + std::string(name(way)) +
         "_" + std::string(name(out_way));
}

std::string role_name(const testing::TestParamInfo<RoleName>& test) {
  constexpr std::array kNames = {"scheduler", "loader", "mma", "storer", "comm"};
  return kNames[static_cast<std::size_t>(test.param)];
}

class RolesTest : public testing::TestWithParam<Case> {};

TEST_P(RolesTest, EveryTaskOnceInOrder) {
  const auto [num_ranks, kind, way, out_way] = GetParam();
  const LoopbackWorld<Geometry> routes = small_world(num_ranks);
  ASSERT_GT(routes.routes(0).num_phases, 3U);  // the ring turns
  for (const std::uint32_t ctas : {1U, 2U}) {
    SCOPED_TRACE(std::to_string(ctas) + " CTAs");
    Machine machine(routes,
                    CallSetup{.kind = kind,
                              .epoch = 15 + ctas,  // the counters' tag wraps
                              .x_way = way,
                              .dy_way = way,
                              .out_way = out_way},
                    ctas);
    machine.world().abort.deadline = scaled(std::chrono::seconds(60));
    const std::vector<RoleEnd> ends = machine.run();
    expect_clean(machine, ends);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, RolesTest,
    testing::Combine(testing::Values(1U, 2U, 3U),
                     testing::Values(CallKind::kForward, CallKind::kBackward, CallKind::kRecompute),
                     testing::Values(Dispatch::kPull, Dispatch::kPush),
                     testing::Values(Combine::kScatter, Combine::kPush, Combine::kPull)),
    case_name);

class StalledRoleTest : public testing::TestWithParam<RoleName> {};

// One role of rank 1 stops after its second task: all roles of all ranks end, one of them reports,
// and the report names rank 1.
TEST_P(StalledRoleTest, EndsAllRolesWithATimeoutThatNamesTheRank) {
  const LoopbackWorld<Geometry> routes = small_world(3);
  Machine machine(routes, CallSetup{}, 1);
  machine.world().stall = Stall{1, GetParam(), 2};
  machine.world().abort.deadline = scaled(std::chrono::milliseconds(800));
  const std::vector<RoleEnd> ends = machine.run();
  ASSERT_EQ(machine.world().stalled.load(), 1U);
  ASSERT_GE(machine.world().abort.reports.load(), 1U);
  const Report& report = machine.world().abort.first;
  EXPECT_EQ(report.result, WaitResult::kTimeout);
  EXPECT_EQ(report.info.rank, 1U) << site_name(report.info.site);
  EXPECT_LT(report.info.seen, report.info.expected) << site_name(report.info.site);
  std::size_t not_done = 0;
  for (const RoleEnd end : ends) {
    not_done += end == RoleEnd::kDone ? 0U : 1U;
  }
  EXPECT_GT(not_done, 0U);
}

INSTANTIATE_TEST_SUITE_P(Roles, StalledRoleTest,
                         testing::Values(RoleName::kScheduler, RoleName::kLoader, RoleName::kMma,
                                         RoleName::kStorer, RoleName::kComm),
                         role_name);

// An abort from outside ends everything, and nobody reports: it is not their finding.
TEST(RolesAbortTest, OutsideAbortEndsAllRolesWithoutAReport) {
  const LoopbackWorld<Geometry> routes = small_world(2);
  Machine machine(routes, CallSetup{}, 2);
  machine.world().stall = Stall{0, RoleName::kLoader, 1};
  machine.world().abort.deadline = scaled(std::chrono::seconds(60));
  std::jthread watchdog([&machine] {
    while (machine.world().stalled.load() == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    machine.world().abort.word.store(1);
  });
  const std::vector<RoleEnd> ends = machine.run();
  EXPECT_EQ(machine.world().abort.reports.load(), 0U);
  EXPECT_NE(std::count(ends.begin(), ends.end(), RoleEnd::kAborted), 0);
  EXPECT_EQ(std::count(ends.begin(), ends.end(), RoleEnd::kFailed), 0);
}

// Two ranks whose contexts differ find out at the first start flag.
TEST(RolesAbortTest, MismatchedCallsAreReported) {
  const LoopbackWorld<Geometry> routes = small_world(2);
  Machine machine(routes, CallSetup{}, 1);
  machine.world().ranks[1]->view.start_word ^= 1U;
  machine.world().abort.deadline = scaled(std::chrono::seconds(60));
  machine.run();
  ASSERT_GE(machine.world().abort.reports.load(), 1U);
  EXPECT_EQ(machine.world().abort.first.result, WaitResult::kMismatch);
  EXPECT_EQ(machine.world().abort.first.info.site, Site::kStart);
}

TEST(PipeStateTest, SkipEqualsAdvance) {
  for (std::uint32_t stages = 1; stages < 6; ++stages) {
    PipeState walked;
    PipeState skipped;
    for (std::uint32_t count = 0; count < 20; ++count) {
      for (std::uint32_t i = 0; i < count; ++i) {
        walked.advance(stages);
      }
      skipped.skip(count, stages);
      EXPECT_EQ(walked.stage, skipped.stage);
      EXPECT_EQ(walked.parity, skipped.parity);
    }
  }
}

}  // namespace
}  // namespace mok::loopback
