// protocol.hpp: wait for a task's waits, publish its signals, open and leave a call. The only places
// where program and synchronisation meet; every machine goes through here.
#pragma once

#include "program/signals.hpp"
#include "program/waits.hpp"
#include "sync/wait.hpp"

namespace mok {

// This rank's words and its peers' flags. Peers are addressed through a table, R is a run-time number.
struct WordTable {
  std::uint32_t* counters = nullptr;           // this rank's
  std::uint64_t* const* peer_flags = nullptr;  // [R] flag arrays; [rank] is this rank's own
};

template <SyncEnv Env, class Geo>
[[nodiscard]] MOK_HD WaitResult wait_task(Env& env, const CallView<Geo>& v, const WordTable& words,
                                          const Task& task) {
  const WaitList list = waits_of(v, task);
  for (std::uint32_t i = 0; i < list.num_counters; ++i) {
    const CounterWait& wait = list.counters[i];
    const WaitResult result =
        wait_counter(env, words.counters + wait.counter, counter_value(v.epoch, wait.count),
                     WaitInfo{wait.site, DeadlineKind::kProgress, v.routes.rank, 0, 0});
    if (result != WaitResult::kReady) {
      return result;
    }
  }
  if (list.num_flags == 0) {
    return WaitResult::kReady;
  }
  const FlagWait& wait = list.flags;
  const bool start = wait.flag == Flag::kStart;
  const std::uint32_t stride =
      v.flags.index(wait.flag, 1, wait.cell) - v.flags.index(wait.flag, 0, wait.cell);
  return wait_flags(
      env, words.peer_flags[v.routes.rank] + v.flags.index(wait.flag, 0, wait.cell), stride,
      wait.first, wait.last, flag_value(v.epoch, wait.payload),
      start ? FlagMatch::kExact : FlagMatch::kAtLeast,
      WaitInfo{wait.site, start ? DeadlineKind::kJoin : DeadlineKind::kProgress, 0, 0, 0});
}

// Stores this rank's word of `flag` at one rank. Pairs with: wait_flags() there.
template <SyncEnv Env, class Geo>
MOK_HD void store_flag(Env& env, const CallView<Geo>& v, const WordTable& words, std::uint32_t at,
                       Flag flag, std::uint32_t cell, std::uint32_t payload) {
  env.store_release(words.peer_flags[at] + v.flags.index(flag, v.routes.rank, cell),
                    flag_value(v.epoch, payload));
}

template <class Geo, class F>
MOK_HD void for_each_piece(const CallView<Geo>& v, const Task& task, const SignalList& list, F f) {
  if (list.piece_rows_last > list.piece_rows_first) {
    for_each_owner(v.routes, task.index, list.piece_rows_first, list.piece_rows_last, f);
  }
}

// Everything the task wrote happens before what its signals allow: the adds carry acquire and release,
// so whoever completes a count has seen all that was counted before it stores the flag.
template <SyncEnv Env, class Geo>
MOK_HD void publish_task(Env& env, const CallView<Geo>& v, const WordTable& words,
                         const Task& task) {
  const SignalRules<Geo> rules(v);
  const SignalList list = rules.of(task);
  for_each_piece(v, task, list, [&](std::uint32_t owner, std::uint32_t rows) {
    const std::uint32_t counter = v.counters.index(Counter::kPieces, owner);
    const std::uint32_t before = env.add_acq_rel(words.counters + counter, rows);
    if (counter_count(before) + rows == rules.full_pieces(owner)) {
      store_flag(env, v, words, owner, Flag::kArriveOut, 0, 1);
    }
  });
  for (std::uint32_t i = 0; i < list.num_signals; ++i) {
    const Signal& signal = list.signals[i];
    const std::uint32_t before = env.add_acq_rel(words.counters + signal.counter, signal.amount);
    if (signal.full != 0 && counter_count(before) + signal.amount == signal.full) {
      for (std::uint32_t peer = signal.first; peer <= signal.last; ++peer) {
        store_flag(env, v, words, peer, signal.flag, signal.cell, signal.payload);
      }
    }
  }
}

// Opening, by one worker whose counters hold (tag, 0). First: this rank's row of counts is at every
// rank (in calls that exchange none, it has entered). The payload tells which call this is.
template <SyncEnv Env, class Geo>
MOK_HD void publish_to_all(Env& env, const CallView<Geo>& v, const WordTable& words, Flag flag) {
  for (std::uint32_t peer = 0; peer < v.routes.num_ranks; ++peer) {
    store_flag(env, v, words, peer, flag, 0, v.start_word);
  }
}
// Waits until every rank's flag says the same call. Pairs with: publish_to_all() there.
template <SyncEnv Env, class Geo>
[[nodiscard]] MOK_HD WaitResult wait_for_all(Env& env, const CallView<Geo>& v,
                                             const WordTable& words, Flag flag, Site site) {
  return wait_flags(env, words.peer_flags[v.routes.rank] + v.flags.index(flag, 0, 0), 1, 0,
                    v.routes.num_ranks - 1, flag_value(v.epoch, v.start_word), FlagMatch::kExact,
                    WaitInfo{site, DeadlineKind::kJoin, 0, 0, 0});
}
// Nothing of this rank's arena may be staged anew before every rank has left the previous call.
template <SyncEnv Env, class Geo>
[[nodiscard]] MOK_HD WaitResult wait_left(Env& env, const CallView<Geo>& v,
                                          const WordTable& words) {
  return wait_flags(env, words.peer_flags[v.routes.rank] + v.flags.index(Flag::kLeft, 0, 0), 1, 0,
                    v.routes.num_ranks - 1, flag_value(v.epoch - 1, 1), FlagMatch::kAtLeast,
                    WaitInfo{Site::kLeft, DeadlineKind::kProgress, 0, 0, 0});
}
// Owners that get no rows from here have all they will get.
template <SyncEnv Env, class Geo>
MOK_HD void settle_empty_owners(Env& env, const CallView<Geo>& v, const WordTable& words) {
  for (std::uint32_t peer = 0; peer < v.routes.num_ranks; ++peer) {
    if (v.routes.rows_of[peer] == 0) {
      store_flag(env, v, words, peer, Flag::kArriveOut, 0, 1);
    }
  }
}

// Leaving: the last worker tells every rank that this one no longer touches their memory.
template <SyncEnv Env, class Geo>
MOK_HD void leave(Env& env, const CallView<Geo>& v, const WordTable& words,
                  std::uint32_t num_workers) {
  const std::uint32_t before =
      env.add_acq_rel(words.counters + v.counters.index(Counter::kExit, 0), 1);
  if (counter_count(before) + 1 == num_workers) {
    for (std::uint32_t peer = 0; peer < v.routes.num_ranks; ++peer) {
      store_flag(env, v, words, peer, Flag::kLeft, 0, 1);
    }
  }
}

}  // namespace mok
