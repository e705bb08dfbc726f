// happens_before.hpp: what the waits of a call order for certain, whatever the timing.
//
// Nodes: a rank's opening, a task's body, the store of a flag by whoever completed its count.
// Edges:
//   contributors of a counter -> whoever waits for the whole counter
//   contributors of a counter -> the store of the flag behind it -> whoever waits for the flag
//   a rank's opening          -> that rank's tasks
// Places in a queue order nothing: several workers claim, and end in any order. A flag word keeps
// its meaning only if its stores come in order of their payloads; that is checked too.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "support/contributions.hpp"

namespace mok::testing {

using WaitsFunction = std::function<WaitList(const View&, const Task&)>;
inline WaitList program_waits(const View& v, const Task& task) {
  return waits_of(v, task);
}

class HappensBefore {
 public:
  HappensBefore(const CallWorld& world, const Contributions& facts, const WaitsFunction& waits)
      : world_(world), facts_(facts), waits_(waits), ranks_(world.num_ranks()) {
    num_bodies_ = ranks_ + facts.tasks.size();
    std::size_t node = num_bodies_;
    for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
      for (const auto& [word, stores] : facts.flags[rank]) {
        store_node_[{rank, word}] = node;
        node += stores.size();
      }
    }
    words_per_set_ = (node + 63) / 64;
    before_.assign(node * words_per_set_, 0);
    state_.assign(node, State::kNew);
    sets_of_counters_.resize(ranks_);
    for (std::size_t i = 0; i < facts.tasks.size(); ++i) {
      visit_task(i);
    }
    for (const auto& [place, first] : store_node_) {
      const auto& stores = facts_.flags[place.first].at(place.second);
      for (std::size_t i = 0; i < stores.size(); ++i) {
        visit_store(first + i, stores[i]);
      }
    }
  }

  [[nodiscard]] std::size_t opening_node(std::uint32_t rank) const { return rank; }
  [[nodiscard]] std::size_t task_node(std::size_t task) const { return ranks_ + task; }
  // Whether a has ended before b begins, in every execution.
  [[nodiscard]] bool before(std::size_t a, std::size_t b) const {
    return (before_[b * words_per_set_ + a / 64] >> (a % 64) & 1) != 0;
  }
  [[nodiscard]] bool cyclic() const { return cyclic_; }

  // Flag words whose stores are not ordered by payload: "flag of rank r at rank s".
  [[nodiscard]] std::vector<std::string> unordered_flags() const {
    std::vector<std::string> bad;
    for (const auto& [place, first] : store_node_) {
      const auto& stores = facts_.flags[place.first].at(place.second);
      for (std::size_t a = 0; a < stores.size(); ++a) {
        for (std::size_t b = 0; b < stores.size(); ++b) {
          if (stores[a].payload < stores[b].payload && !before(first + a, first + b)) {
            bad.push_back("word " + std::to_string(place.second) + " at rank " +
                          std::to_string(place.first) + ": payload " +
                          std::to_string(stores[a].payload) + " may land after " +
                          std::to_string(stores[b].payload));
          }
        }
      }
    }
    return bad;
  }

 private:
  enum class State : std::uint8_t { kNew, kOpen, kDone };

  std::uint64_t* set(std::size_t node) { return before_.data() + node * words_per_set_; }
  void join(std::size_t into, const std::uint64_t* from) {
    for (std::size_t w = 0; w < words_per_set_; ++w) {
      set(into)[w] |= from[w];
    }
  }
  void join_node(std::size_t into, std::size_t from) {
    join(into, set(from));
    set(into)[from / 64] |= std::uint64_t{1} << (from % 64);
  }
  bool enter(std::size_t node) {
    if (state_[node] == State::kOpen) {
      cyclic_ = true;
    }
    if (state_[node] != State::kNew) {
      return false;
    }
    state_[node] = State::kOpen;
    return true;
  }

  void visit_task(std::size_t task) {
    const std::size_t node = task_node(task);
    if (!enter(node)) {
      return;
    }
    const RankTask& what = facts_.tasks[task];
    const View& v = world_.views[what.rank];
    join_node(node, opening_node(what.rank));
    const WaitList list = waits_(v, what.task);
    for (std::uint32_t i = 0; i < list.num_counters; ++i) {
      wait_counter(node, what.rank, list.counters[i]);
    }
    for (std::uint32_t rank = list.flags.first; list.num_flags > 0 && rank <= list.flags.last;
         ++rank) {
      wait_flag(node, what.rank, v.flags.index(list.flags.flag, rank, list.flags.cell), list.flags);
    }
    state_[node] = State::kDone;
  }
  // Less than the whole count: any one contributor may be the missing one, so nothing is certain.
  void wait_counter(std::size_t node, std::uint32_t rank, const CounterWait& wait) {
    const CounterFacts& counter = facts_.counters[rank][wait.counter];
    if (wait.count < counter.sum || counter.from.empty()) {
      return;
    }
    auto& known = sets_of_counters_[rank][wait.counter];
    if (known.empty()) {
      std::vector<std::uint64_t> all(words_per_set_);
      for (const std::size_t from : counter.from) {
        visit_task(from);
        const std::size_t source = task_node(from);
        for (std::size_t w = 0; w < words_per_set_; ++w) {
          all[w] |= set(source)[w];
        }
        all[source / 64] |= std::uint64_t{1} << (source % 64);
      }
      known = std::move(all);
    }
    join(node, known.data());
  }
  // The least payload that satisfies the wait is what is certain to be there.
  void wait_flag(std::size_t node, std::uint32_t rank, std::uint32_t word, const FlagWait& wait) {
    const auto found = facts_.flags[rank].find(word);
    if (found == facts_.flags[rank].end() || wait.payload == 0) {
      return;
    }
    const auto& stores = found->second;
    std::size_t least = stores.size();
    for (std::size_t i = 0; i < stores.size(); ++i) {
      if (stores[i].payload >= wait.payload &&
          (least == stores.size() || stores[i].payload < stores[least].payload)) {
        least = i;
      }
    }
    if (least < stores.size()) {
      const std::size_t store = store_node_.at({rank, word}) + least;
      visit_store(store, stores[least]);
      join_node(node, store);
    }
  }
  void visit_store(std::size_t node, const FlagStore& store) {
    if (!enter(node)) {
      return;
    }
    join_node(node, opening_node(store.by_rank));
    for (const std::size_t from : store.from) {
      visit_task(from);
      join_node(node, task_node(from));
    }
    state_[node] = State::kDone;
  }

  const CallWorld& world_;
  const Contributions& facts_;
  const WaitsFunction& waits_;
  std::uint32_t ranks_;
  std::size_t num_bodies_ = 0;
  std::size_t words_per_set_ = 0;
  std::vector<std::uint64_t> before_;  // a bit set per node
  std::vector<State> state_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::size_t>
      store_node_;  // (rank, word) -> first
  std::vector<std::map<std::uint32_t, std::vector<std::uint64_t>>> sets_of_counters_;
  bool cyclic_ = false;
};

}  // namespace mok::testing
