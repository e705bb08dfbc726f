// data_safety_test.cpp: in every execution that the waits allow, each byte is read after it is
// written and overwritten after its last use; flag words only grow. Small worlds, whole
// happens-before relation. Which buffers and readers are modelled stands in
// support/memory_model.hpp.
#include <gtest/gtest.h>

#include <compare>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "support/contributions.hpp"
#include "support/happens_before.hpp"
#include "support/memory_model.hpp"
#include "support/random.hpp"
#include "support/world_builder.hpp"

namespace mok::testing {
namespace {

// Few tasks, many phases.
CallWorld draw_small_world(std::uint64_t i) {
  Random random(test_seed() * 40'000'000 + i);
  CallSpec spec = draw_spec(random, i);
  spec.hidden = random.one_in(3) ? 12 : 8;
  spec.intermediate = random.one_in(3) ? 16 : 4 * random.between(1, 3);
  spec.min_phase_tiles = random.between(1, 3);
  if (random.one_in(2)) {
    spec.cell_rows = spec.geo.block_rows + spec.geo.row_pad * random.below(2);
  }
  const std::uint32_t ranks = random.between(1, 4);
  return CallWorld(spec, draw_batch(random, ranks, random.between(1, 6), random.between(1, 3),
                                    60 / (ranks + 1)));
}

TEST(DataSafety, EveryPlaceIsWrittenReadAndReusedInOrder) {
  std::vector<std::size_t> reuses(static_cast<std::size_t>(Buffer::kNumBuffers));
  for (std::uint64_t i = 0; i < 2000; ++i) {
    const CallWorld world = draw_small_world(i);
    const Contributions facts(world);
    const WaitsFunction waits = program_waits;
    const HappensBefore order(world, facts, waits);
    const MemoryModel memory(world, facts, order);
    ASSERT_FALSE(order.cyclic());
    EXPECT_EQ(order.unordered_flags(), std::vector<std::string>{});
    EXPECT_EQ(memory.places().violations(), std::vector<std::string>{});
    ASSERT_FALSE(HasFailure()) << "MOK_TEST_SEED " << test_seed() << ", world " << i << ": "
                               << world.spec;
    const std::vector<std::size_t> counts = memory.places().reuses();
    for (std::size_t b = 0; b < counts.size(); ++b) {
      reuses[b] += counts[b];
    }
  }
  for (const Buffer ring : {Buffer::kX, Buffer::kDy, Buffer::kRoute, Buffer::kGateUp,
                            Buffer::kHidden, Buffer::kPartials, Buffer::kOut, Buffer::kSpill}) {
    EXPECT_GT(reuses[static_cast<std::size_t>(ring)], 1000U) << static_cast<int>(ring);
  }
}

// A wait as a reader of the protocol would name it.
struct WaitName {
  CallKind call;
  TaskKind task;
  Site site;
  friend auto operator<=>(const WaitName&, const WaitName&) = default;
};

enum class Weaken : std::uint32_t { kDrop, kLower };

// waits_of with one kind of wait dropped, or its target lowered (a counter by 1, a flag by one turn
// of the ring).
WaitsFunction weakened(WaitName name, Weaken how) {
  return [name, how](const View& v, const Task& task) {
    const WaitList real = waits_of(v, task);
    if (v.kind != name.call || task.kind != name.task) {
      return real;
    }
    WaitList list;
    for (std::uint32_t i = 0; i < real.num_counters; ++i) {
      CounterWait wait = real.counters[i];
      if (wait.site == name.site && wait.count > 0) {
        --wait.count;
      }
      if (wait.site != name.site || how == Weaken::kLower) {
        list.counters[list.num_counters++] = wait;
      }
    }
    if (real.num_flags > 0) {
      FlagWait wait = real.flags;
      if (wait.site == name.site) {
        const bool celled = wait.flag >= Flag::kArriveX;
        wait.payload = celled && wait.payload > v.geo.cells ? wait.payload - v.geo.cells : 0;
      }
      if (wait.site != name.site || how == Weaken::kLower) {
        list.set(wait);
      }
    }
    return list;
  };
}

std::set<WaitName> waits_in(const CallWorld& world, const Contributions& facts) {
  std::set<WaitName> names;
  for (const RankTask& t : facts.tasks) {
    const WaitList list = waits_of(world.views[t.rank], t.task);
    for (std::uint32_t i = 0; i < list.num_counters; ++i) {
      names.insert({world.spec.kind, t.task.kind, list.counters[i].site});
    }
    if (list.num_flags > 0) {
      names.insert({world.spec.kind, t.task.kind, list.flags.site});
    }
  }
  return names;
}

std::string text_of(WaitName name) {
  return "call kind " + std::to_string(static_cast<int>(name.call)) + " task kind " +
         std::to_string(static_cast<int>(name.task)) + " at " + site_name(name.site);
}

// The check can fail: without any one wait some world is unsafe. The exceptions follow from other
// waits.
TEST(DataSafety, EveryWaitIsNeeded) {
  // Both follow from kRows: x (dY) rows of the phase came after the cell was free.
  const std::set<WaitName> implied{
      WaitName{CallKind::kBackward, TaskKind::kGateUp, Site::kCellFree},
      WaitName{CallKind::kBackward, TaskKind::kHiddenGrad, Site::kCellFree}};
  std::set<WaitName> seen;
  std::map<Weaken, std::set<WaitName>> caught;
  for (std::uint64_t i = 0; i < 900; ++i) {
    const CallWorld world = draw_small_world(i);
    const Contributions facts(world);
    for (const WaitName& name : waits_in(world, facts)) {
      seen.insert(name);
      for (const Weaken how : {Weaken::kDrop, Weaken::kLower}) {
        if (caught[how].count(name) > 0) {
          continue;
        }
        const WaitsFunction waits = weakened(name, how);
        const HappensBefore order(world, facts, waits);
        if (!order.unordered_flags().empty() ||
            !MemoryModel(world, facts, order).places().violations().empty()) {
          caught[how].insert(name);
        }
      }
    }
  }
  EXPECT_GE(seen.size(), 25U);
  for (const WaitName& name : seen) {
    const bool needed = implied.count(name) == 0;
    EXPECT_EQ(caught[Weaken::kDrop].count(name) > 0, needed) << text_of(name) << " dropped";
    EXPECT_EQ(caught[Weaken::kLower].count(name) > 0, needed) << text_of(name) << " lowered";
  }
}

}  // namespace
}  // namespace mok::testing
