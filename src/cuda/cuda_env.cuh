// cuda_env.cuh: SyncEnv of the GPU: scopes, clock, abort words and the status record.
//
// Counters and cursors belong to one GPU (.gpu), flags to all ranks (.sys). Everybody polls the abort
// word of its own rank in device memory; exactly one scheduler warp a rank also looks, at a low rate, at
// a host-mapped word and mirrors it (132 CTAs that poll host memory pay 243,000 cycles a poll).
// A failed wait is reported once: the first reporter fills the status record, then all ranks stop.
// Members are host and device because the shared templates are; the host halves are never run.
#pragma once

#include <nv/target>

#include <cstdint>

#include "core/host_device.hpp"
#include "cuda/ptx/global_timer.cuh"
#include "cuda/ptx/global_words.cuh"
#include "cuda/ptx/nanosleep.cuh"
#include "program/roles.hpp"
#include "sync/env.hpp"

namespace mok::cuda {

enum class RecordState : std::uint32_t { kEmpty, kClaimed, kComplete };

// In global memory, zeroed before a launch, read by the host after it.
struct StatusRecord {
  std::uint32_t state;     // RecordState; claimed by compare-and-swap
  std::uint32_t result;    // WaitResult
  std::uint32_t site;      // Site
  std::uint32_t rank;      // the one that was waited for
  std::uint32_t reporter;  // the one that waited
  Epoch epoch;
  std::uint64_t expected;
  std::uint64_t seen;
  std::uint64_t time_ns;  // of the GPU's clock
};

// What the roles of a CTA need to know; lies in shared memory.
struct CudaEnvWords {
  std::uint32_t rank;
  std::uint32_t num_ranks;
  Epoch epoch;
  std::uint32_t asks_left;          // of the mirroring role: until its next look; 0: it never looks
  const std::uint32_t* abort_word;  // this rank's, device memory; raised by any rank
  std::uint32_t* const* peer_abort;  // [R] the abort words of all ranks
  const std::uint32_t* host_abort;   // host-mapped
  StatusRecord* record;              // of this rank's GPU
  std::uint64_t join_deadline_ns;
  std::uint64_t progress_deadline_ns;
};

// A mirroring role copies the host's abort word into the rank's, where asks_left says so.
enum class Mirror : std::uint32_t { kNo, kHostWord };

template <Mirror kMirror>
class CudaEnv {
 public:
  using Watch = std::uint64_t;  // the end, on the GPU's clock

  MOK_HD_MEMBER explicit CudaEnv(CudaEnvWords& words) : words_(&words) {}

  // Pairs with: add_acq_rel() of other CTAs of this rank.
  [[nodiscard]] MOK_HD_MEMBER std::uint32_t load_acquire(const std::uint32_t* counter) const {
    NV_IF_ELSE_TARGET(NV_IS_DEVICE, (return ptx::ld_acquire_gpu(counter);), (return *counter;))
  }
  // Pairs with: store_release() of any rank.
  [[nodiscard]] MOK_HD_MEMBER std::uint64_t load_acquire(const std::uint64_t* flag) const {
    NV_IF_ELSE_TARGET(NV_IS_DEVICE, (return ptx::ld_acquire_sys(flag);), (return *flag;))
  }
  MOK_HD_MEMBER void store_release(std::uint64_t* flag, std::uint64_t value) const {
    NV_IF_ELSE_TARGET(NV_IS_DEVICE, (ptx::st_release_sys(flag, value);), (*flag = value;))
  }
  MOK_HD_MEMBER std::uint32_t add_acq_rel(std::uint32_t* counter, std::uint32_t amount) const {
    NV_IF_ELSE_TARGET(NV_IS_DEVICE, (return ptx::atom_add_acq_rel_gpu(counter, amount);),
                      (return *counter + amount;))
  }
  MOK_HD_MEMBER std::uint32_t claim(std::uint32_t* cursor) const {
    NV_IF_ELSE_TARGET(NV_IS_DEVICE, (return ptx::atom_add_relaxed_gpu(cursor, 1);),
                      (return *cursor;))
  }
  MOK_HD_MEMBER void pause() const { NV_IF_TARGET(NV_IS_DEVICE, (ptx::nanosleep<kPauseNs>();)) }
  [[nodiscard]] MOK_HD_MEMBER bool aborted() const {
    NV_IF_ELSE_TARGET(NV_IS_DEVICE,
                      (mirror_host_word(); return ptx::ld_relaxed_gpu(words_->abort_word) != 0;),
                      (return true;))
  }
  // A rank's wait for itself stands behind another role's wait for the rank that is missing: it gets
  // both deadlines together, so that the one who knows the missing rank speaks first.
  [[nodiscard]] MOK_HD_MEMBER Watch watch(const WaitInfo& info) const {
    const std::uint64_t join_ns = words_->join_deadline_ns;
    const std::uint64_t progress_ns = words_->progress_deadline_ns;
    const std::uint64_t other_ns = info.deadline == DeadlineKind::kJoin ? join_ns : progress_ns;
    return now_ns() + (info.rank == words_->rank ? join_ns + progress_ns : other_ns);
  }
  [[nodiscard]] MOK_HD_MEMBER bool expired(Watch end, const WaitInfo&) const {
    return static_cast<std::int64_t>(now_ns() - end) > 0;
  }
  MOK_HD_MEMBER void report(WaitResult result, const WaitInfo& info) const {
    NV_IF_ELSE_TARGET(NV_IS_DEVICE, (write_report(*words_, result, info);),
                      (static_cast<void>(result), static_cast<void>(info);))
  }

  [[nodiscard]] MOK_HD_MEMBER std::uint64_t now_ns() const {
    NV_IF_ELSE_TARGET(NV_IS_DEVICE, (return ptx::global_timer_ns();), (return 0;))
  }

 private:
  static constexpr std::uint32_t kPauseNs = 64;
  static constexpr std::uint32_t kAsksPerHostLook =
      16;  // aborted() asked so often between two looks

  __device__ __forceinline__ void mirror_host_word() const {
    if constexpr (kMirror == Mirror::kNo) {
      return;
    }
    if (words_->asks_left == 0 || --words_->asks_left > 0) {
      return;
    }
    words_->asks_left = kAsksPerHostLook;
    if (ptx::ld_relaxed_sys(words_->host_abort) != 0) {
      ptx::st_release_sys(words_->peer_abort[words_->rank],
                          1U);  // pairs with: aborted(), by value only
    }
  }

  static __device__ __forceinline__ void write_report(const CudaEnvWords& words, WaitResult result,
                                                      const WaitInfo& info) {
    StatusRecord* const record = words.record;
    if (ptx::atom_cas_acq_rel_sys(&record->state, static_cast<std::uint32_t>(RecordState::kEmpty),
                                  static_cast<std::uint32_t>(RecordState::kClaimed)) ==
        static_cast<std::uint32_t>(RecordState::kEmpty)) {
      record->result = static_cast<std::uint32_t>(result);
      record->site = static_cast<std::uint32_t>(info.site);
      record->rank = info.rank;
      record->reporter = words.rank;
      record->epoch = words.epoch;
      record->expected = info.expected;
      record->seen = info.seen;
      record->time_ns = ptx::global_timer_ns();
      // Pairs with: the host's read after the kernel has ended.
      ptx::st_release_sys(&record->state, static_cast<std::uint32_t>(RecordState::kComplete));
    }
    for (std::uint32_t rank = 0; rank < words.num_ranks; ++rank) {
      ptx::st_release_sys(words.peer_abort[rank], 1U);  // pairs with: aborted(), by value only
    }
  }

  CudaEnvWords* words_;
};
static_assert(RoleEnv<CudaEnv<Mirror::kNo>> && RoleEnv<CudaEnv<Mirror::kHostWord>>);

}  // namespace mok::cuda
