// program_test.cpp: the stamp rules and the queues of random calls: every wait goes to smaller
// stamps and can be reached exactly, every queue is in stamp order, every task comes exactly once.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "support/contributions.hpp"
#include "support/random.hpp"
#include "support/task_enumeration.hpp"
#include "support/world_builder.hpp"

namespace mok::testing {
namespace {

constexpr std::uint64_t kNumWorlds = 3000;

std::string describe(const Task& task) {
  return "task kind " + std::to_string(static_cast<int>(task.kind)) + " index " +
         std::to_string(task.index) + " col " + std::to_string(task.col) + " phase " +
         std::to_string(task.phase);
}

template <class Check>
void for_random_worlds(std::uint64_t salt, Check check) {
  for (std::uint64_t i = 0; i < kNumWorlds; ++i) {
    Random random(test_seed() * 10'000'000 + salt * 1'000'000 + i);
    const CallSpec spec = draw_spec(random, i);
    const std::uint32_t ranks = random.one_in(20) ? random.between(6, 12) : random.between(1, 5);
    CallWorld world(spec, draw_batch(random, ranks, random.between(1, 9), random.between(1, 4),
                                     random.one_in(6) ? 40 : 10));
    ASSERT_NO_FATAL_FAILURE(check(world))
        << "MOK_TEST_SEED " << test_seed() << ", world " << i << ": " << spec;
  }
}

// Rule (ii), and that tickets and tasks are in bijection.
void check_queues(const CallWorld& world) {
  for (const View& v : world.views) {
    const QueueTasks queues = queue_tasks(v);
    for (const auto* queue : {&queues.compute, &queues.comm}) {
      Stamp last = 0;
      for (const Task& task : *queue) {
        ASSERT_NE(task.kind, TaskKind::kStop);
        ASSERT_EQ(queue == &queues.comm, task.kind >= TaskKind::kPullX) << describe(task);
        ASSERT_GE(stamp_of(v, task), last) << describe(task);
        last = stamp_of(v, task);
      }
    }
    std::vector<Task> all = queues.compute;
    all.insert(all.end(), queues.comm.begin(), queues.comm.end());
    std::sort(all.begin(), all.end(), task_before);
    const std::vector<Task> expected = expected_tasks(world.views, v.routes.rank);
    ASSERT_EQ(all.size(), expected.size());
    for (std::size_t i = 0; i < all.size(); ++i) {
      ASSERT_TRUE(all[i] == expected[i]) << describe(all[i]) << " not " << describe(expected[i]);
    }
  }
}

TEST(Program, QueuesHandOutEveryTaskOnceInStampOrder) {
  for_random_worlds(1, check_queues);
}

// A claimer that keeps a hint, and gets only some of the tickets, decodes what a search decodes; so does
// one whose ticket goes back.
template <class Queue>
void check_hints(const Queue& queue) {
  for (const std::uint32_t stride : {1U, 2U, 7U, 64U}) {
    StepHint hint;
    for (std::uint32_t ticket = 0; ticket < queue.size(); ticket += stride) {
      ASSERT_TRUE(queue.task(ticket, hint) == queue.task(ticket)) << ticket << " by " << stride;
    }
    if (queue.size() > 0) {
      ASSERT_TRUE(queue.task(0, hint) == queue.task(0));
    }
  }
}

TEST(Program, HintsChangeNoTask) {
  for_random_worlds(3, [](const CallWorld& world) {
    for (const View& view : world.views) {
      check_hints(ComputeQueue<Geometry>(view));
      check_hints(CommQueue<Geometry>(view));
    }
  });
}

// Rules (i) and (vi) for one task's waits.
void check_waits(const CallWorld& world, const Contributions& facts, const RankTask& waiter) {
  const View& v = world.views[waiter.rank];
  const WaitList list = waits_of(v, waiter.task);
  ASSERT_LE(list.num_counters, 3U);
  ASSERT_LE(list.num_flags, 1U);
  for (std::uint32_t i = 0; i < list.num_counters; ++i) {
    const CounterFacts& counter = facts.counters[waiter.rank][list.counters[i].counter];
    ASSERT_EQ(list.counters[i].count, counter.sum)
        << describe(waiter.task) << " at " << site_name(list.counters[i].site);
    for (const std::size_t from : counter.from) {
      ASSERT_LT(facts.tasks[from].stamp, waiter.stamp)
          << describe(waiter.task) << " waits for " << describe(facts.tasks[from].task);
    }
  }
  if (list.num_flags == 0) {
    return;
  }
  ASSERT_LE(list.flags.first, list.flags.last);
  ASSERT_LT(list.flags.last, world.num_ranks());
  for (std::uint32_t rank = list.flags.first; rank <= list.flags.last; ++rank) {
    const auto word =
        facts.flags[waiter.rank].find(v.flags.index(list.flags.flag, rank, list.flags.cell));
    ASSERT_NE(word, facts.flags[waiter.rank].end())
        << describe(waiter.task) << ": nobody stores its flag";
    std::uint32_t found = 0;
    for (const FlagStore& store : word->second) {
      ASSERT_EQ(store.by_rank, rank);
      if (store.payload != list.flags.payload) {
        continue;
      }
      ++found;
      for (const std::size_t from : store.from) {
        ASSERT_LT(facts.tasks[from].stamp, waiter.stamp)
            << describe(waiter.task) << " waits for " << describe(facts.tasks[from].task);
      }
    }
    ASSERT_EQ(found, 1U) << describe(waiter.task) << " at " << site_name(list.flags.site);
  }
}

// Signals that carry a flag agree on when it is due, and that is when all of them have added.
void check_flag_counts(const CallWorld& world, const Contributions& facts, const RankTask& task) {
  const View& v = world.views[task.rank];
  const SignalList list = signals_of(v, task.task);
  ASSERT_LE(list.num_signals, 3U);
  for (std::uint32_t i = 0; i < list.num_signals; ++i) {
    const Signal& signal = list.signals[i];
    ASSERT_GT(signal.amount, 0U);
    if (signal.full != 0) {
      ASSERT_EQ(signal.full, facts.counters[task.rank][signal.counter].sum) << describe(task.task);
      ASSERT_LT(signal.cell, v.geo.cells);
    }
  }
}

void check_stamps(CallWorld& world) {
  const Contributions facts(world);
  for (const RankTask& task : facts.tasks) {
    ASSERT_NO_FATAL_FAILURE(check_waits(world, facts, task));
    ASSERT_NO_FATAL_FAILURE(check_flag_counts(world, facts, task));
  }
  for (const View& v : world.views) {
    const SignalRules<Geometry> rules(v);
    for (std::uint32_t owner = 0; owner < world.num_ranks(); ++owner) {
      const auto& pieces = facts.counters[v.routes.rank][v.counters.index(Counter::kPieces, owner)];
      if (v.kind != CallKind::kRecompute && v.out_way != Combine::kPull) {
        ASSERT_EQ(pieces.sum, rules.full_pieces(owner));
      } else {
        ASSERT_EQ(pieces.sum, 0U);
      }
    }
  }
}

TEST(Program, EveryWaitGoesToSmallerStampsAndItsTargetIsReachedExactly) {
  for_random_worlds(2, check_stamps);
}

// The numbers of the GPU: real geometry, large widths, hundreds of blocks.
TEST(Program, RulesHoldOnTheDefaultGeometry) {
  for (std::uint64_t i = 0; i < 24; ++i) {
    Random random(test_seed() * 77'000 + i);
    CallSpec spec = draw_spec(random, i);
    spec.geo = Geometry{};
    spec.kind = i % 5 == 0 ? CallKind::kBackward : CallKind::kForward;
    spec.hidden = 8 * random.between(1, 100);
    spec.intermediate = 8 * random.between(1, 60);
    spec.cell_rows = 128 + 64 * random.below(8);
    spec.saved_rows = 64 * random.below(20);
    CallWorld world(spec, draw_batch(random, random.between(1, 4), random.between(1, 9), 2, 400));
    ASSERT_NO_FATAL_FAILURE(check_queues(world)) << spec;
    ASSERT_NO_FATAL_FAILURE(check_stamps(world)) << spec;
  }
}

// Rotation starts ranks at different blocks, so that they do not all read from rank 0 first.
TEST(Program, RanksStartAtDifferentBlocks) {
  CallSpec spec;
  spec.geo = small_geometry(2);
  spec.cell_rows = 64;
  spec.min_phase_tiles = 1000;
  Batch batch{4, 4, 1, {16, 16, 16, 16}, {}};
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    auto& ids = batch.ids.emplace_back();
    for (std::int32_t i = 0; i < 16; ++i) {
      ids.push_back(i % 4);
    }
  }
  const CallWorld world(spec, batch);
  std::set<std::uint32_t> first_sources;
  for (const View& v : world.views) {
    ASSERT_EQ(v.routes.num_phases, 1U);
    ASSERT_EQ(v.routes.num_blocks, 4U);
    const Task task = CommQueue<Geometry>(v).task(0);
    first_sources.insert(v.routes.blocks[task.index].first_source);
    EXPECT_EQ(ComputeQueue<Geometry>(v).task(0).index, task.index);
  }
  EXPECT_EQ(first_sources.size(), 4U);
}

TEST(Program, WeightTilesCoverEachMatrixOnce) {
  for (std::uint64_t i = 0; i < 200; ++i) {
    Random random(test_seed() + i);
    const Geometry geo = small_geometry(1);
    const std::uint32_t hidden = random.between(1, 40);
    const std::uint32_t width = random.between(1, 40);
    std::set<std::vector<std::uint32_t>> cells;
    const std::uint32_t tiles = TileCounts<Geometry>::expert_weights(geo, hidden, width);
    for (std::uint32_t t = 0; t < tiles; ++t) {
      const WeightTile tile = weight_tile(geo, hidden, width, t);
      const bool down = tile.kind == WeightKind::kDown;
      const std::uint32_t row_end = std::min(tile.row0 + geo.wgrad_rows, down ? hidden : width);
      const std::uint32_t col_end = std::min(tile.col0 + geo.tile_cols, down ? width : hidden);
      ASSERT_LT(tile.row0, row_end);
      ASSERT_LT(tile.col0, col_end);
      for (std::uint32_t row = tile.row0; row < row_end; ++row) {
        for (std::uint32_t col = tile.col0; col < col_end; ++col) {
          ASSERT_TRUE(cells.insert({static_cast<std::uint32_t>(tile.kind), row, col}).second);
        }
      }
    }
    ASSERT_EQ(cells.size(), std::size_t{3} * hidden * width);
  }
}

}  // namespace
}  // namespace mok::testing
