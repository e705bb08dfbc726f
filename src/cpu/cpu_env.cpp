// cpu_env.cpp: whom a time-out names, and how it stops the group.
#include "cpu/cpu_env.hpp"

#include "mok/status.hpp"

namespace mok::cpu {

// The awaited rank may itself be waiting: follow its workers' state words to a rank that is inside a
// task, or that waits for nobody.
CpuEnv::Blame CpuEnv::follow(const WaitInfo& info) const {
  Blame blame{info.rank, info.deadline};
  for (std::uint32_t hop = 0; hop < sync_.num_ranks; ++hop) {
    Blame next = blame;
    for (std::uint32_t worker = 0; worker < sync_.workers; ++worker) {
      const std::uint64_t state =
          sync_.host(blame.rank).state(worker).load(std::memory_order_relaxed);
      const auto site = static_cast<Site>(state >> 32);
      const auto awaited = static_cast<std::uint32_t>(state);
      if (site == Site::kTask) {
        return blame;
      }
      const bool joining = site == Site::kStart || site == Site::kCounts;
      if (site != Site::kNone && (joining || awaited != blame.rank)) {
        next = Blame{awaited, joining ? DeadlineKind::kJoin : blame.deadline};
      }
    }
    if (next.rank == blame.rank) {
      return next;
    }
    blame = next;
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
