// pipe.hpp: a pipeline of stages between the roles of one CTA, by barriers with mbarrier semantics.
//
// Each stage has two barriers: `full` (the producer has filled it) and `empty` (the consumers are
// done with it). A barrier completes a phase when it has seen as many arrivals as it was
// initialised for, and is then at once ready for the next phase; the number never changes. Whoever
// waits names the parity of the phase: 0 for the first, 1 for the second, 0 for the third. A
// barrier that has seen nothing counts as having completed a phase of parity 1, so a producer's
// first wait for `empty` ends at once. An arrival releases, a wait that ends acquires, both inside
// the CTA. Local waits are bounded by local hardware. On the GPU they are bare loops (a machine may
// guard them by a clock); where a thread or fiber stands for a role, they also end when the call is
// aborted.
#pragma once

#include <concepts>
#include <cstdint>

#include "core/host_device.hpp"

namespace mok {

enum class PipeEdge : std::uint32_t { kFull, kEmpty };
enum class PipeWait : std::uint32_t { kReady, kAborted };

// How a pipe is initialised.
struct PipeShape {
  std::uint32_t num_stages = 1;
  std::uint32_t full_arrivals = 1;   // that complete a phase of `full`
  std::uint32_t empty_arrivals = 1;  // that complete a phase of `empty`
};

// A handle: cheap to copy, the barriers lie elsewhere.
template <class P>
concept Pipe = requires(const P pipe, PipeEdge edge, std::uint32_t stage, std::uint32_t parity,
                        std::uint32_t count) {
  { pipe.num_stages() } -> std::same_as<std::uint32_t>;
  { pipe.arrive(edge, stage, count) } -> std::same_as<void>;
  { pipe.wait(edge, stage, parity) } -> std::same_as<PipeWait>;
};

// Where one role stands in a pipe. All roles of a pipe walk its stages in the same order.
struct PipeState {
  std::uint32_t stage = 0;
  std::uint32_t parity = 0;  // of the stage's next phase of `full`

  MOK_HD_MEMBER void advance(std::uint32_t num_stages) {
    if (++stage == num_stages) {
      stage = 0;
      parity ^= 1U;
    }
  }
  // Past stages that this role has nothing to do with.
  MOK_HD_MEMBER void skip(std::uint32_t count, std::uint32_t num_stages) {
    const std::uint32_t place = stage + count;
    parity ^= place / num_stages & 1U;
    stage = place % num_stages;
  }
};

// Consumer: the producer has filled the stage. Pairs with: arrive_full().
template <Pipe P>
[[nodiscard]] MOK_HD PipeWait wait_full(const P& pipe, const PipeState& at) {
  return pipe.wait(PipeEdge::kFull, at.stage, at.parity);
}
// Producer: the consumers are done with what was in the stage before. Pairs with: arrive_empty().
template <Pipe P>
[[nodiscard]] MOK_HD PipeWait wait_empty(const P& pipe, const PipeState& at) {
  return pipe.wait(PipeEdge::kEmpty, at.stage, at.parity ^ 1U);
}
template <Pipe P>
MOK_HD void arrive_full(const P& pipe, const PipeState& at) {
  pipe.arrive(PipeEdge::kFull, at.stage, 1);
}
template <Pipe P>
MOK_HD void arrive_empty(const P& pipe, const PipeState& at, std::uint32_t count = 1) {
  pipe.arrive(PipeEdge::kEmpty, at.stage, count);
}

}  // namespace mok
