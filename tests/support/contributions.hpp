// contributions.hpp: for every counter and flag of a call, which tasks of which rank make it.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "program/protocol.hpp"
#include "program/stamp.hpp"
#include "support/task_enumeration.hpp"

namespace mok::testing {

struct RankTask {
  std::uint32_t rank;
  Task task;
  Stamp stamp;
};

struct CounterFacts {
  std::uint64_t sum = 0;
  std::vector<std::size_t> from;  // indices into Contributions::tasks
};
struct FlagStore {
  std::uint32_t payload;
  std::vector<std::size_t> from;  // all tasks that add to the counter behind it; none: the opening
  std::uint32_t by_rank;
};

struct Contributions {
  std::vector<RankTask> tasks;                                         // of all ranks, both queues
  std::vector<std::vector<CounterFacts>> counters;                     // [rank][counter]
  std::vector<std::map<std::uint32_t, std::vector<FlagStore>>> flags;  // [rank][word]

  explicit Contributions(const CallWorld& world) {
    const std::uint32_t ranks = world.num_ranks();
    flags.resize(ranks);
    for (const View& v : world.views) {
      counters.emplace_back(v.counters.size());
      const QueueTasks queues = queue_tasks(v);
      for (const auto* queue : {&queues.compute, &queues.comm}) {
        for (const Task& task : *queue) {
          tasks.push_back({v.routes.rank, task, stamp_of(v, task)});
        }
      }
    }
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      count(world.views[tasks[i].rank], i);
    }
    for (const View& v : world.views) {
      opening(v);
    }
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      store(world.views[tasks[i].rank], i);
    }
  }

 private:
  void count(const View& v, std::size_t i) {
    const SignalList list = signals_of(v, tasks[i].task);
    auto& own = counters[tasks[i].rank];
    const auto add = [&](std::uint32_t counter, std::uint32_t amount) {
      own[counter].sum += amount;
      own[counter].from.push_back(i);
    };
    for (std::uint32_t s = 0; s < list.num_signals; ++s) {
      add(list.signals[s].counter, list.signals[s].amount);
    }
    for_each_piece(v, tasks[i].task, list, [&](std::uint32_t owner, std::uint32_t rows) {
      add(v.counters.index(Counter::kPieces, owner), rows);
    });
  }
  void opening(const View& v) {
    for (std::uint32_t peer = 0; peer < v.routes.num_ranks; ++peer) {
      for (const Flag flag : {Flag::kCounts, Flag::kStart}) {
        flags[peer][v.flags.index(flag, v.routes.rank, 0)].push_back(
            {v.start_word, {}, v.routes.rank});
      }
      const std::uint32_t word = v.flags.index(Flag::kArriveOut, v.routes.rank, 0);
      const auto& pieces = counters[v.routes.rank][v.counters.index(Counter::kPieces, peer)];
      if (v.routes.rows_of[peer] == 0) {
        flags[peer][word].push_back({1, {}, v.routes.rank});
      } else if (!pieces.from.empty()) {
        flags[peer][word].push_back({1, pieces.from, v.routes.rank});
      }
    }
  }
  // Flags behind a signal: once per counter, by its first contributor.
  void store(const View& v, std::size_t i) {
    const SignalList list = signals_of(v, tasks[i].task);
    for (std::uint32_t s = 0; s < list.num_signals; ++s) {
      const Signal& signal = list.signals[s];
      const CounterFacts& facts = counters[tasks[i].rank][signal.counter];
      if (signal.full == 0 || facts.from.front() != i) {
        continue;
      }
      for (std::uint32_t peer = signal.first; peer <= signal.last; ++peer) {
        flags[peer][v.flags.index(signal.flag, tasks[i].rank, signal.cell)].push_back(
            {signal.payload, facts.from, tasks[i].rank});
      }
    }
  }
};

}  // namespace mok::testing
