// task.hpp: the unit of work, and what it waits for and signals.
#pragma once

#include <cstdint>

#include "core/host_device.hpp"
#include "sync/env.hpp"
#include "sync/word_layout.hpp"

namespace mok {

enum class TaskKind : std::uint32_t {
  kStop,  // ends a role; not in any queue
  // compute queue
  kSharedLogit,       // s = sigmoid(x . shared_output_gate) of a token block
  kSharedGateUp,      // gate, up, hidden of the shared expert
  kSharedDown,        // shared output (forward)
  kSharedHiddenGrad,  // dh of the shared expert, SwiGLU backward
  kSharedInputGrad,   // shared dX; its first column tile sums ds
  kSharedWeightGrad,  // one tile of a shared weight gradient
  kSharedLogitGrad,   // tile_cols columns of d_shared_output_gate
  kZeroGrad,          // exact zeros for an expert without rows
  kGateUp,            // gate, up, hidden
  kDown,              // y (forward)
  kHiddenGrad,        // dh, SwiGLU backward
  kInputGrad,         // dX rows; the first column tile sums dw
  kWeightGrad,        // one tile of a weight gradient over one part
  kReduce,            // out rows of a token stripe
  // comm queue
  kPullX,
  kPullDy,
  kPushX,
  kPushDy,
  kReceiveX,
  kReceiveDy,
  kCombinePush,
  kCombinePull,
  kNumTaskKinds
};

// The 16 bytes that travel through the mailbox.
struct alignas(16) Task {
  TaskKind kind = TaskKind::kStop;
  std::uint32_t index = 0;  // block, shared block, part, record, empty expert or token stripe
  std::uint32_t col = 0;    // column tile, weight tile, or stripe inside the block or record
  std::uint32_t phase = 0;

  friend MOK_HD_MEMBER bool operator==(const Task& a, const Task& b) {
    return a.kind == b.kind && a.index == b.index && a.col == b.col && a.phase == b.phase;
  }
};
static_assert(sizeof(Task) == 16);

struct CounterWait {
  std::uint32_t counter = 0;
  std::uint32_t count = 0;
  Site site = Site::kNone;
};
struct FlagWait {
  Flag flag = Flag::kStart;
  std::uint32_t first = 0;  // ranks first..last
  std::uint32_t last = 0;
  std::uint32_t cell = 0;
  std::uint32_t payload = 0;
  Site site = Site::kNone;
};
struct WaitList {
  CounterWait counters[3];
  std::uint32_t num_counters = 0;
  FlagWait flags;
  std::uint32_t num_flags = 0;  // 0 or 1

  MOK_HD_MEMBER void add(std::uint32_t counter, std::uint32_t count, Site site) {
    counters[num_counters++] = CounterWait{counter, count, site};
  }
  MOK_HD_MEMBER void set(FlagWait wait) {
    flags = wait;
    num_flags = 1;
  }
};

// An add to a counter of this rank. When the count becomes `full`, whoever made it so stores the flag
// (this rank's word, `cell`, `payload`) at ranks first..last.
struct Signal {
  std::uint32_t counter = 0;
  std::uint32_t amount = 0;
  std::uint32_t full = 0;  // 0: no flag
  Flag flag = Flag::kStart;
  std::uint32_t first = 0;
  std::uint32_t last = 0;
  std::uint32_t cell = 0;
  std::uint32_t payload = 0;
};
struct SignalList {
  Signal signals[3];
  std::uint32_t num_signals = 0;
  std::uint32_t piece_rows_first = 0;  // rows of the block whose owners get a piece counted
  std::uint32_t piece_rows_last = 0;

  MOK_HD_MEMBER void add(std::uint32_t counter, std::uint32_t amount) {
    signals[num_signals++] = Signal{counter, amount, 0, Flag::kStart, 0, 0, 0, 0};
  }
  MOK_HD_MEMBER void add(Signal signal) { signals[num_signals++] = signal; }
};

}  // namespace mok
