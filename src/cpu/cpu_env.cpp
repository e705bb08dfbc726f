// cpu_env.cpp: whom a time-out names, and how it stops the group.
#include "cpu/cpu_env.hpp"

#include <algorithm>

#include "mok/status.hpp"

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

void CpuEnv::report(WaitResult result, const WaitInfo& info) {
  const bool mismatch = result == WaitResult::kMismatch;
  const std::uint32_t rank = mismatch ? info.rank : follow(info).rank;
  sync_.set->fail(Status::wait_failed(
      mismatch ? Code::kCallMismatch : Code::kTimeout,
      Status::WaitFacts{static_cast<int>(rank), site_name(info.site), info.expected, info.seen,
                        sync_.epoch, static_cast<int>(sync_.rank)}));
  for (std::uint32_t peer = 0; peer < sync_.num_ranks; ++peer) {
    sync_.host(peer).word(HostWord::kAbort).store(1, std::memory_order_release);
  }
}

}  // namespace mok::cpu
