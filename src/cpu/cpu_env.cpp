// cpu_env.cpp: whom a time-out names, and how it stops the group.
#include "cpu/cpu_env.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "mok/status.hpp"
#include "program/call.hpp"
#include "sync/words.hpp"

namespace mok::cpu {

// Breadth first over the state words: from the awaited rank to the ranks that its workers wait for, and
// so on. A rank with a worker inside a task is an end of the chain: it must finish that task. The rank to
// look at is the first one inside a task, else the first one that waits for nobody.
CpuEnv::Blame CpuEnv::follow(const WaitInfo& info) {
  constexpr std::uint32_t kNobody = 0xffffffffU;
  Blame blame{info.rank, info.deadline, 0};
  std::uint32_t in_task = kNobody;
  std::uint32_t waits_for_nobody = kNobody;
  reached_.assign(1, info.rank);
  for (std::size_t i = 0; i < reached_.size(); ++i) {
    const std::uint32_t rank = reached_[i];
    const std::size_t before = reached_.size();
    bool task = false;
    bool waits = false;
    blame.lives += life(rank);
    for (std::uint32_t worker = 0; worker < sync_.workers; ++worker) {
      const std::uint64_t state = sync_.host(rank).state(worker).load(std::memory_order_relaxed);
      const auto site = static_cast<Site>(state >> 32);
      const auto awaited = static_cast<std::uint32_t>(state);
      task = task || site == Site::kTask;
      if (site == Site::kStart || site == Site::kCounts) {
        blame.deadline = DeadlineKind::kJoin;
      }
      if (site == Site::kNone || site == Site::kTask || awaited == rank) {
        continue;
      }
      waits = true;
      if (std::find(reached_.begin(), reached_.end(), awaited) == reached_.end()) {
        reached_.push_back(awaited);
      }
    }
    if (task) {
      reached_.resize(before);
      in_task = in_task == kNobody ? rank : in_task;
    } else if (!waits && waits_for_nobody == kNobody) {
      waits_for_nobody = rank;
    }
  }
  if (in_task != kNobody) {
    blame.rank = in_task;
  } else if (waits_for_nobody != kNobody) {
    blame.rank = waits_for_nobody;
  }
  return blame;
}

namespace {

const char* call_name(std::uint32_t start_payload) {
  switch (static_cast<CallKind>(start_payload >> 28)) {
    case CallKind::kForward: return "forward";
    case CallKind::kBackward: return "backward";
    case CallKind::kRecompute: return "recompute";
  }
  return "no call";
}

// Flags carry the call number in their high half; counters have none there.
bool is_flag(const WaitInfo& info) {
  return (info.expected >> 32) != 0;
}
// What the awaited word counts: phases, rows or tiles of this call; 0 where it still speaks of another.
std::uint64_t count_of(const WaitInfo& info, std::uint64_t value) {
  if (!is_flag(info)) {
    return value;
  }
  return flag_epoch(value) == flag_epoch(info.expected) ? flag_payload(value) : 0;
}
std::string mismatch_site(const WaitInfo& info, std::uint32_t reporter) {
  const std::uint32_t theirs = flag_payload(info.seen);
  const std::uint32_t ours = flag_payload(info.expected);
  const bool same_kind = theirs >> 28 == ours >> 28;
  return std::string(site_name(info.site)) + " (rank " + std::to_string(info.rank) + " is in " +
         call_name(theirs) + ", rank " + std::to_string(reporter) + " in " + call_name(ours) +
         (same_kind ? " with another context)" : ")");
}

}  // namespace

void CpuEnv::report(WaitResult result, const WaitInfo& info) {
  Status::WaitFacts facts;
  facts.epoch = sync_.epoch;
  facts.reporter = static_cast<int>(sync_.rank);
  const bool mismatch = result == WaitResult::kMismatch;
  if (mismatch) {
    facts.rank = static_cast<int>(info.rank);
    facts.site = mismatch_site(info, sync_.rank);
  } else {
    facts.rank = static_cast<int>(follow(info).rank);
    facts.site = site_name(info.site);
    const bool joining = info.site == Site::kStart || info.site == Site::kCounts;
    facts.expected = joining ? 1 : count_of(info, info.expected);
    facts.seen = joining ? 0 : count_of(info, info.seen);
  }
  sync_.set->fail(
      Status::wait_failed(mismatch ? Code::kCallMismatch : Code::kTimeout, std::move(facts)));
  for (std::uint32_t peer = 0; peer < sync_.num_ranks; ++peer) {
    sync_.host(peer).word(HostWord::kAbort).store(1, std::memory_order_release);
  }
}

}  // namespace mok::cpu
