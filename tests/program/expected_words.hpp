// expected_words.hpp: counters and flags as a call must leave them: every task published once, in
// queue order, by one thread a rank. No order of tasks that the waits allow may give another result.
#pragma once

#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include "program/protocol.hpp"
#include "program/roles.hpp"
#include "sync/env.hpp"

namespace mok::loopback {

// Words that nobody else touches.
struct PlainEnv {
  using Watch = int;
  [[nodiscard]] MOK_HD_MEMBER std::uint32_t load_acquire(const std::uint32_t* word) const {
    return *word;
  }
  [[nodiscard]] MOK_HD_MEMBER std::uint64_t load_acquire(const std::uint64_t* word) const {
    return *word;
  }
  MOK_HD_MEMBER void store_release(std::uint64_t* word, std::uint64_t value) const {
    *word = value;
  }
  MOK_HD_MEMBER std::uint32_t add_acq_rel(std::uint32_t* word, std::uint32_t amount) const {
    const std::uint32_t before = *word;
    *word += amount;
    return before;
  }
  MOK_HD_MEMBER void pause() const {}
  [[nodiscard]] MOK_HD_MEMBER bool aborted() const { return false; }
  [[nodiscard]] MOK_HD_MEMBER Watch watch(const WaitInfo&) const { return 0; }
  [[nodiscard]] MOK_HD_MEMBER bool expired(Watch, const WaitInfo&) const { return true; }
  MOK_HD_MEMBER void report(WaitResult, const WaitInfo&) const {}
};
static_assert(SyncEnv<PlainEnv>);

struct RankWords {
  std::vector<std::uint32_t> counters;
  std::vector<std::uint64_t> flags;
};

// All counters of a call that opens.
template <class Geo>
RankWords opened_words(const CallView<Geo>& view) {
  return {std::vector<std::uint32_t>(view.counters.size(), counter_value(view.epoch, 0)),
          std::vector<std::uint64_t>(view.flags.size(), 0)};
}

template <class Geo>
std::vector<RankWords> expected_words(const std::vector<CallView<Geo>>& views,
                                      std::uint32_t num_leavers) {
  std::vector<RankWords> words;
  std::vector<std::uint64_t*> peer_flags;
  for (const CallView<Geo>& view : views) {
    words.push_back(opened_words(view));
  }
  for (RankWords& rank : words) {
    peer_flags.push_back(rank.flags.data());
  }
  // One thread a rank: each word has one rank that writes it.
  std::vector<std::jthread> threads;
  const auto publish_rank = [&](std::size_t rank) {
    PlainEnv env;
    const CallView<Geo>& view = views[rank];
    const WordTable table{words[rank].counters.data(), peer_flags.data()};
    const RoleShare share{nullptr, nullptr, num_leavers};
    publish_opening(env, RoleCall<Geo>{view, table, share});
    const auto publish_queue = [&](const auto& queue) {
      const std::uint32_t size = queue.size();
      for (std::uint32_t ticket = 0; ticket < size; ++ticket) {
        publish_task(env, view, table, queue.task(ticket));
      }
    };
    publish_queue(ComputeQueue<Geo>(view));
    publish_queue(CommQueue<Geo>(view));
    for (std::uint32_t i = 0; i < num_leavers; ++i) {
      leave(env, view, table, num_leavers);
    }
  };
  for (std::size_t rank = 0; rank < views.size(); ++rank) {
    threads.emplace_back([&publish_rank, rank] { publish_rank(rank); });
  }
  threads.clear();  // joins
  return words;
}

}  // namespace mok::loopback
