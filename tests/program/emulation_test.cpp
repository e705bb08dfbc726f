// emulation_test.cpp: runs whole calls of all ranks through the real wait_task and publish_task on
// one thread: in stamp order nothing waits, in any interleaving of the claimers something can
// always run, and the words end where the tables say. Also with call numbers that wrap and with
// stale words.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

#include "support/contributions.hpp"
#include "support/random.hpp"
#include "support/step_env.hpp"
#include "support/task_enumeration.hpp"
#include "support/world_builder.hpp"

namespace mok::testing {
namespace {

constexpr Epoch kEpochs[] = {0xffffffffU, 0, 1, 15, 16, 0x7fffffffU, 0x80000000U};

// kSmaller: the queue whose head has the smaller stamp, as a worker that serves both takes it.
enum class Queue : std::uint32_t { kCompute, kComm, kSmaller };
enum class Opening : std::uint32_t { kOutside, kEntered, kOpen };

// A worker's role: claims from one queue of one rank.
struct Claimer {
  std::uint32_t rank = 0;
  Queue queue = Queue::kCompute;
  bool busy = false;
  std::uint32_t slowness = 1;  // how often it is passed over while it holds stores
  Task task;
  StepEnv env;
};

class Emulation {
 public:
  Emulation(CallWorld& world, Random& random) : world_(world), random_(random) {
    for (const View& v : world.views) {
      queues_.push_back(queue_tasks(v));
      cursors_.push_back({0, 0});
      const bool both = random.one_in(3);  // else a worker a role
      for (const Queue queue :
           {both ? Queue::kSmaller : Queue::kCompute, both ? Queue::kSmaller : Queue::kComm}) {
        for (std::uint32_t i = random.between(1, 3); i > 0; --i) {
          Claimer claimer;
          claimer.rank = v.routes.rank;
          claimer.queue = queue;
          claimer.env.hold_stores = true;
          claimer.slowness = random.one_in(3) ? 100 : 1;
          claimers_.push_back(claimer);
        }
      }
    }
    opening_.assign(world.num_ranks(), Opening::kOutside);
  }

  // Runs to the end; false: no step is possible, or a flag word has shrunk.
  [[nodiscard]] bool run() {
    for (;;) {
      bool moved = false;
      bool left = std::count(opening_.begin(), opening_.end(), Opening::kOpen) <
                  static_cast<std::ptrdiff_t>(opening_.size());
      for (std::uint32_t tries = 0; tries < 4 && !moved; ++tries) {
        Claimer& c = claimers_[random_.below(static_cast<std::uint32_t>(claimers_.size()))];
        moved = (c.env.held.empty() || random_.one_in(c.slowness)) && step(c);
      }
      for (const bool may_land : {false, true}) {  // held stores land last
        for (std::size_t i = 0; i < claimers_.size() && !moved; ++i) {
          moved = (may_land || claimers_[i].env.held.empty()) && step(claimers_[i]);
        }
      }
      for (const Claimer& claimer : claimers_) {
        left |= claimer.busy || !claimer.env.held.empty() || !all_claimed(claimer.rank);
        if (claimer.env.num_shrinking > 0) {
          return false;
        }
      }
      if (!left || !moved) {
        return !left;
      }
    }
  }

 private:
  [[nodiscard]] bool claim(Claimer& c) {
    auto& cursors = cursors_[c.rank];
    const std::vector<Task>* queues[2] = {&queues_[c.rank].compute, &queues_[c.rank].comm};
    const auto head = [&](std::size_t i) {
      return cursors[i] < queues[i]->size()
                 ? stamp_of(world_.views[c.rank], (*queues[i])[cursors[i]])
                 : ~Stamp{0};
    };
    const std::size_t from = c.queue == Queue::kSmaller ? (head(0) <= head(1) ? 0 : 1)
                                                        : static_cast<std::size_t>(c.queue);
    if (cursors[from] == queues[from]->size()) {
      return false;
    }
    c.task = (*queues[from])[cursors[from]++];
    c.busy = true;
    return true;
  }
  [[nodiscard]] bool all_claimed(std::uint32_t rank) const {
    return cursors_[rank][0] == queues_[rank].compute.size() &&
           cursors_[rank][1] == queues_[rank].comm.size();
  }
  // Lands a held store, opens the rank's call, claims, or runs a task whose waits hold.
  bool step(Claimer& c) {
    const View& v = world_.views[c.rank];
    if (!c.env.held.empty()) {
      c.env.store_one();
      return true;
    }
    if (opening_[c.rank] != Opening::kOpen) {
      return open(c);
    }
    if (!c.busy) {
      return claim(c);
    }
    if (wait_task(c.env, v, world_.words(c.rank), c.task) != WaitResult::kReady) {
      return false;
    }
    publish_task(c.env, v, world_.words(c.rank), c.task);
    c.busy = false;
    return true;
  }

  // Enters the call; once every rank has entered, stages and opens. By the claimer that comes
  // first.
  bool open(Claimer& c) {
    const View& v = world_.views[c.rank];
    if (opening_[c.rank] == Opening::kOutside) {
      opening_[c.rank] = Opening::kEntered;
      world_.open_counters(c.rank);
      publish_to_all(c.env, v, world_.words(c.rank), Flag::kCounts);
      return true;
    }
    if (wait_for_all(c.env, v, world_.words(c.rank), Flag::kCounts, Site::kCounts) !=
        WaitResult::kReady) {
      return false;
    }
    opening_[c.rank] = Opening::kOpen;
    publish_staged(c.env, world_, c.rank);
    return true;
  }

  CallWorld& world_;
  Random& random_;
  std::vector<QueueTasks> queues_;
  std::vector<std::vector<std::size_t>> cursors_;
  std::vector<Claimer> claimers_;
  std::vector<Opening> opening_;
};

CallWorld draw_world(std::uint64_t salt, std::uint64_t i) {
  Random random(test_seed() * 10'000'000 + salt * 1'000'000 + i);
  const CallSpec spec = draw_spec(random, i);
  return CallWorld(spec, draw_batch(random, random.between(1, 5), random.between(1, 8),
                                    random.between(1, 3), random.one_in(5) ? 24 : 8));
}
std::string describe(std::uint64_t i, const CallWorld& world) {
  std::ostringstream out;
  out << "MOK_TEST_SEED " << test_seed() << ", world " << i << ": " << world.spec;
  return out.str();
}

// Words as the call of the epoch before has left them: everything full.
void set_stale(CallWorld& world, const Contributions& facts) {
  const Epoch before = world.spec.epoch - 1U;
  for (std::uint32_t rank = 0; rank < world.num_ranks(); ++rank) {
    for (std::size_t c = 0; c < facts.counters[rank].size(); ++c) {
      world.counters[rank][c] =
          counter_value(before, static_cast<std::uint32_t>(facts.counters[rank][c].sum));
    }
    std::fill(world.flags[rank].begin(), world.flags[rank].end(), flag_value(before, 0));
    for (const auto& [word, stores] : facts.flags[rank]) {
      for (const FlagStore& store : stores) {
        world.flags[rank][word] =
            std::max(world.flags[rank][word], flag_value(before, store.payload));
      }
    }
  }
}

void open_all(CallWorld& world, StepEnv& env) {
  for (const View& v : world.views) {
    world.open_counters(v.routes.rank);
    publish_to_all(env, v, world.words(v.routes.rank), Flag::kCounts);
    publish_staged(env, world, v.routes.rank);
  }
}

// All counters and flags at the end of a call.
void expect_final_words(const CallWorld& world, const Contributions& facts) {
  for (std::uint32_t rank = 0; rank < world.num_ranks(); ++rank) {
    for (std::size_t c = 0; c < facts.counters[rank].size(); ++c) {
      ASSERT_EQ(
          world.counters[rank][c],
          counter_value(world.spec.epoch, static_cast<std::uint32_t>(facts.counters[rank][c].sum)));
    }
    for (const auto& [word, stores] : facts.flags[rank]) {
      std::uint32_t last = 0;
      for (const FlagStore& store : stores) {
        last = std::max(last, store.payload);
      }
      ASSERT_EQ(world.flags[rank][word], flag_value(world.spec.epoch, last));
    }
  }
}

// Per-phase counters against loops over the blocks.
void expect_phase_counts(const CallWorld& world, std::uint32_t rank) {
  const View& v = world.views[rank];
  const RouteView& r = v.routes;
  const auto count = [&](Counter counter, std::uint32_t i) {
    return counter_count(world.counters[rank][v.counters.index(counter, i)]);
  };
  const std::uint32_t out = tiles_of(v.hidden, v.geo.tile_cols);
  const std::uint32_t hidden = tiles_of(v.intermediate, v.geo.tile_cols);
  const std::uint32_t gate_up = tiles_of(v.intermediate, v.geo.tile_cols / 2);
  const bool backward = v.kind == CallKind::kBackward;
  for (std::uint32_t p = 0; p < r.num_phases; ++p) {
    std::uint32_t blocks = 0;
    std::uint32_t window = 0;
    std::uint32_t rows = 0;
    for (std::uint32_t b = 0; b < r.num_blocks; ++b) {
      if (r.blocks[b].phase != p) {
        continue;
      }
      const bool saved = b < r.saved_blocks;
      const bool moves = v.kind == CallKind::kForward || saved != backward;
      ++blocks;
      window += moves ? 1U : 0U;
      rows += r.blocks[b].padded_rows;
      ASSERT_EQ(count(Counter::kXReady, b), moves ? r.blocks[b].padded_rows : 0U);
      ASSERT_EQ(count(Counter::kDyReady, b), backward ? r.blocks[b].padded_rows : 0U);
      ASSERT_EQ(count(Counter::kGateUpReady, b), moves ? gate_up : 0U);
      ASSERT_EQ(count(Counter::kHiddenGradReady, b), backward ? hidden : 0U);
    }
    std::uint32_t parts = 0;
    for (std::uint32_t i = 0; i < r.num_parts; ++i) {
      parts += r.blocks[r.parts[i].first_block].phase == p ? 1U : 0U;
    }
    const bool recompute = v.kind == CallKind::kRecompute;
    ASSERT_EQ(count(Counter::kGateUpDone, p), window * gate_up);
    ASSERT_EQ(count(Counter::kOutDone, p), recompute ? 0U : blocks * out);
    ASSERT_EQ(count(Counter::kHiddenGradDone, p), backward ? blocks * hidden : 0U);
    ASSERT_EQ(count(Counter::kRetired, p),
              backward ? blocks * out + parts * weight_tiles_of(v, v.intermediate) : 0U);
    ASSERT_EQ(count(Counter::kCombined, p), !recompute && v.out_way == Combine::kPush ? rows : 0U);
  }
}

TEST(Emulation, InStampOrderNothingEverWaits) {
  for (std::uint64_t i = 0; i < 2000; ++i) {
    CallWorld world = draw_world(3, i);
    SCOPED_TRACE(describe(i, world));
    Random random(test_seed() + i);
    const Contributions facts(world);
    std::vector<RankTask> tasks = facts.tasks;
    random.shuffle(tasks);
    std::stable_sort(tasks.begin(), tasks.end(),
                     [](const RankTask& a, const RankTask& b) { return a.stamp < b.stamp; });
    StepEnv env;
    open_all(world, env);
    for (const RankTask& t : tasks) {
      const View& v = world.views[t.rank];
      ASSERT_EQ(wait_task(env, v, world.words(t.rank), t.task), WaitResult::kReady)
          << "task kind " << static_cast<int>(t.task.kind) << " at " << site_name(env.info.site);
      publish_task(env, v, world.words(t.rank), t.task);
    }
    ASSERT_EQ(env.num_shrinking, 0U);
    ASSERT_NO_FATAL_FAILURE(expect_final_words(world, facts));
    for (std::uint32_t rank = 0; rank < world.num_ranks(); ++rank) {
      ASSERT_NO_FATAL_FAILURE(expect_phase_counts(world, rank));
    }
  }
}

TEST(Emulation, AnyInterleavingOfClaimersReachesTheEnd) {
  for (std::uint64_t i = 0; i < 2000; ++i) {
    CallWorld world = draw_world(4, i);
    SCOPED_TRACE(describe(i, world));
    Random random(test_seed() + i);
    ASSERT_TRUE(Emulation(world, random).run());
    ASSERT_NO_FATAL_FAILURE(expect_final_words(world, Contributions(world)));
  }
}

TEST(Emulation, CallNumbersWrapAndStaleWordsMatchNothing) {
  for (std::uint64_t i = 0; i < 210; ++i) {
    CallWorld world = draw_world(5, i);
    world.set_epoch(kEpochs[i % std::size(kEpochs)]);
    SCOPED_TRACE(describe(i, world));
    const Contributions facts(world);
    set_stale(world, facts);
    StepEnv env;
    for (const RankTask& t : facts.tasks) {
      const View& v = world.views[t.rank];
      const WaitList list = waits_of(v, t.task);
      if (list.num_counters + list.num_flags > 0) {
        ASSERT_EQ(wait_task(env, v, world.words(t.rank), t.task), WaitResult::kTimeout);
      }
    }
    Random random(test_seed() + i);
    ASSERT_TRUE(Emulation(world, random).run());
    ASSERT_NO_FATAL_FAILURE(expect_final_words(world, facts));
  }
}

// Several calls on the same words: 40 epochs across the wrap of the counters' tag and of the call
// number.
TEST(Emulation, ManyCallsOnTheSameWords) {
  CallWorld world = draw_world(6, 6);
  const Contributions facts(world);
  world.set_epoch(0xffffffffU - 19);
  set_stale(world, facts);
  for (Epoch epoch = world.spec.epoch; epoch != 20; ++epoch) {
    world.set_epoch(epoch);
    Random random(epoch);
    ASSERT_TRUE(Emulation(world, random).run()) << epoch;
    ASSERT_NO_FATAL_FAILURE(expect_final_words(world, facts)) << epoch;
  }
}

// A rank that brings another call (or another context) to the group is found by the start flags.
TEST(Emulation, AnotherCallOfAPeerIsAMismatch) {
  CallSpec spec;
  spec.geo = small_geometry(2);
  CallWorld world(spec, Batch{2, 2, 1, {1, 1}, {{0}, {0}}});
  StepEnv env;
  world.views[1].start_word = start_payload(static_cast<std::uint32_t>(CallKind::kBackward), 7);
  open_all(world, env);
  const Task task{TaskKind::kPullX, 0, 0, 0};
  EXPECT_EQ(wait_task(env, world.views[0], world.words(0), task), WaitResult::kMismatch);
  EXPECT_EQ(env.info.rank, 1U);
  EXPECT_EQ(env.info.site, Site::kStart);
  EXPECT_EQ(env.info.deadline, DeadlineKind::kJoin);
}

TEST(Emulation, TheLastWorkerLeavesForTheRank) {
  CallWorld world = draw_world(7, 1);
  StepEnv env;
  open_all(world, env);
  for (const View& v : world.views) {
    for (std::uint32_t worker = 0; worker < 3; ++worker) {
      for (std::uint32_t peer = 0; peer < world.num_ranks(); ++peer) {
        const std::uint64_t word = world.flags[peer][v.flags.index(Flag::kLeft, v.routes.rank, 0)];
        EXPECT_FALSE(flag_reached(word, flag_value(v.epoch, 1)));
      }
      leave(env, v, world.words(v.routes.rank), 3);
    }
    for (std::uint32_t peer = 0; peer < world.num_ranks(); ++peer) {
      EXPECT_EQ(world.flags[peer][v.flags.index(Flag::kLeft, v.routes.rank, 0)],
                flag_value(v.epoch, 1));
    }
  }
}

// The emulation can fail: tasks that signal too little leave somebody waiting.
TEST(Emulation, AMissingSignalIsFound) {
  std::uint32_t num_stuck = 0;
  for (std::uint64_t i = 0; i < 60; ++i) {
    CallWorld world = draw_world(8, i);
    Contributions facts(world);
    std::stable_sort(facts.tasks.begin(), facts.tasks.end(),
                     [](const RankTask& a, const RankTask& b) { return a.stamp < b.stamp; });
    StepEnv env;
    open_all(world, env);
    bool stuck = false;
    for (std::size_t t = 0; t < facts.tasks.size() && !stuck; ++t) {
      const RankTask& what = facts.tasks[t];
      const View& v = world.views[what.rank];
      stuck = wait_task(env, v, world.words(what.rank), what.task) != WaitResult::kReady;
      if (t != 0) {  // the first task's signals are lost
        publish_task(env, v, world.words(what.rank), what.task);
      }
    }
    num_stuck += stuck ? 1U : 0U;
  }
  EXPECT_GT(num_stuck, 30U);
}

}  // namespace
}  // namespace mok::testing
