// failure_test.cpp: a stalled worker ends every rank's call with a typed time-out that names its rank; a
// slow one does not.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "layer/three_ranks.hpp"

namespace mok::testing {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr int kStalled = 1;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Holds the first worker that comes to a task of `kind`, in the given call, until all others are back.
struct Stall {
  TaskKind kind;
  std::uint64_t call;
  std::atomic<bool> taken{false};
  std::atomic<bool> released{false};
  Clock::time_point start;

  void hold(const Workspace& workspace, const Task& task) {
    if (task.kind != kind || workspace.impl().epoch != call || taken.exchange(true)) {
      return;
    }
    start = Clock::now();
    while (!released && seconds_since(start) < 60.0 * deadline_scale()) {
      std::this_thread::sleep_for(milliseconds(1));
    }
  }
};

struct StallCase {
  const char* name;
  TaskKind kind;
  std::uint64_t call;  // 1: forward, 2: backward
  Dispatch dispatch = Dispatch::kPull;
  Combine combine = Combine::kScatter;
  int workers = 2;
};
void PrintTo(const StallCase& c, std::ostream* out) {
  *out << c.name;
}

// Both calls of one rank; the first failure ends them.
Status forward_and_backward(LayerRig& rig, const LayerData& data, LayerResult& result,
                            Context& context, int rank) {
  auto forward = mok::forward(rig.workspace(rank), forward_args(data, result, rank, &context));
  if (!forward) {
    return forward.error();
  }
  auto backward = mok::backward(rig.workspace(rank), backward_args(data, result, rank, &context));
  return backward ? Status{} : backward.error();
}

// The first call that fails on a rank: a rank may notice one call later, when it waits for all to leave.
Status first_failure(LayerRig& rig, const LayerData& data, LayerResult& result, Context& context,
                     int rank) {
  const Status status = forward_and_backward(rig, data, result, context, rank);
  return status.ok() ? forward_and_backward(rig, data, result, context, rank) : status;
}

class StalledWorker : public ::testing::TestWithParam<StallCase> {};

TEST_P(StalledWorker, EndsEveryRanksCallAndNamesItsRank) {
  const StallCase& c = GetParam();
  LayerSpec spec = three_ranks();
  spec.options.dispatch = spec.options.dy_dispatch = c.dispatch;
  spec.options.combine = spec.options.dx_combine = c.combine;
  spec.options.workers = c.workers;
  const LayerData data(spec);
  LayerRig rig(spec);
  Stall stall{c.kind, c.call, {}, {}, {}};
  rig.workspace(kStalled).impl().hook = [&](std::uint32_t, std::uint32_t, const Task& task) {
    stall.hold(rig.workspace(kStalled), task);
  };
  LayerResult result(data);
  std::vector<Context> contexts = rig.contexts();
  std::vector<Status> status(kNumRanks);
  std::atomic<int> others{kNumRanks - 1};
  double seconds[kNumRanks] = {};
  on_ranks(kNumRanks, [&](int rank) {
    const auto r = static_cast<std::size_t>(rank);
    status[r] = first_failure(rig, data, result, contexts[r], rank);
    seconds[r] = stall.taken ? seconds_since(stall.start) : 0.0;
    if (rank != kStalled && --others == 0) {
      stall.released = true;
    }
  });
  ASSERT_TRUE(stall.taken) << "no such task";
  for (std::size_t rank = 0; rank < kNumRanks; ++rank) {
    EXPECT_EQ(status[rank].code(), Code::kTimeout)
        << "rank " << rank << ": " << status[rank].message();
    EXPECT_EQ(status[rank].wait().rank, kStalled) << status[rank].message();
    EXPECT_NE(status[rank].wait().site, "") << status[rank].message();
    EXPECT_NE(status[rank].wait().site, "none") << status[rank].message();
    EXPECT_GE(status[rank].wait().epoch, c.call);
    EXPECT_LE(status[rank].wait().epoch, c.call + 1);
    if (rank != kStalled) {
      EXPECT_LE(seconds[rank], std::chrono::duration<double>(real(progress_ms() + 500)).count());
    }
  }
  // From now on refused, with the first failure's facts.
  for (int rank = 0; rank < kNumRanks; ++rank) {
    const auto again = mok::forward(rig.workspace(rank), forward_args(data, result, rank, nullptr));
    ASSERT_FALSE(again);
    EXPECT_EQ(again.error().code(), Code::kPoisoned);
    EXPECT_EQ(again.error().wait().rank, kStalled);
  }
  // New workspaces of the same group work.
  LayerRig fresh(spec, rig.worlds());
  const LayerResult expected = run_layer(data);
  EXPECT_EQ(first_difference(expected, run_layer(fresh, data), Shared::kCompare), "");
  // A context is empty after its forward has failed; one that was filled serves the new workspaces.
  const bool filled = std::all_of(contexts.begin(), contexts.end(),
                                  [](const Context& context) { return context.filled(); });
  if (filled) {
    LayerResult again(data);
    again.y = expected.y;
    EXPECT_EQ(failures(fresh.backward(data, again, contexts)), "");
    EXPECT_EQ(first_difference(expected, again, Shared::kCompare), "");
  }
}

INSTANTIATE_TEST_SUITE_P(
    Tasks, StalledWorker,
    ::testing::Values(
        StallCase{"PullX", TaskKind::kPullX, 1}, StallCase{"GateUp", TaskKind::kGateUp, 1},
        StallCase{"GateUpAlone", TaskKind::kGateUp, 1, Dispatch::kPull, Combine::kScatter, 1},
        StallCase{"DownPull", TaskKind::kDown, 1, Dispatch::kPull, Combine::kPull},
        StallCase{"SharedGateUpAlone", TaskKind::kSharedGateUp, 1, Dispatch::kPull, Combine::kPush,
                  1},
        StallCase{"ReduceForward", TaskKind::kReduce, 1},
        StallCase{"PushX", TaskKind::kPushX, 1, Dispatch::kPush, Combine::kPush},
        StallCase{"ReceiveX", TaskKind::kReceiveX, 1, Dispatch::kPush, Combine::kPull},
        StallCase{"CombinePush", TaskKind::kCombinePush, 1, Dispatch::kPush, Combine::kPush},
        StallCase{"CombinePull", TaskKind::kCombinePull, 1, Dispatch::kPull, Combine::kPull},
        StallCase{"PullDy", TaskKind::kPullDy, 2},
        StallCase{"HiddenGrad", TaskKind::kHiddenGrad, 2},
        StallCase{"PushDy", TaskKind::kPushDy, 2, Dispatch::kPush},
        StallCase{"InputGrad", TaskKind::kInputGrad, 2, Dispatch::kPush, Combine::kPull},
        StallCase{"CombinePullDx", TaskKind::kCombinePull, 2, Dispatch::kPull, Combine::kPull},
        StallCase{"WeightGrad", TaskKind::kWeightGrad, 2},
        StallCase{"ReduceBackward", TaskKind::kReduce, 2}),
    [](const auto& test) { return test.param.name; });

// A forward that fails leaves its context empty, also one that an earlier forward had filled.
TEST(FailedForward, EmptiesItsContext) {
  const LayerData data(three_ranks());
  LayerRig rig(three_ranks());
  LayerResult result(data);
  std::vector<Context> contexts = rig.contexts();
  ASSERT_EQ(failures(rig.forward(data, result, &contexts)), "");
  Stall stall{TaskKind::kGateUp, 2, {}, {}, {}};
  rig.workspace(kStalled).impl().hook = [&](std::uint32_t, std::uint32_t, const Task& task) {
    stall.hold(rig.workspace(kStalled), task);
  };
  std::atomic<int> others{kNumRanks - 1};
  on_ranks(kNumRanks, [&](int rank) {
    Context& context = contexts[static_cast<std::size_t>(rank)];
    ASSERT_TRUE(context.filled());
    EXPECT_FALSE(mok::forward(rig.workspace(rank), forward_args(data, result, rank, &context)));
    EXPECT_FALSE(context.filled());
    EXPECT_EQ(context.routes().num_rows, 0);
    if (rank != kStalled && --others == 0) {
      stall.released = true;
    }
  });
}

// Slow ranks are alive: whoever waits for them, directly, through another rank, or for a colleague of its
// own rank that does, waits on.
class SlowRank : public ::testing::TestWithParam<Combine> {};
INSTANTIATE_TEST_SUITE_P(Combines, SlowRank, ::testing::Values(Combine::kScatter, Combine::kPull),
                         [](const auto& test) { return std::string(name(test.param)); });

TEST_P(SlowRank, DoesNotTimeOut) {
  LayerSpec spec = three_ranks();
  spec.tokens = {8, 8, 8};
  spec.shared = 0;
  spec.topk = 2;
  spec.options.combine = spec.options.dx_combine = GetParam();
  LayerData data(spec);
  // Rank 0 needs nobody's rows and waits in its next call for rank 1 to leave this one; rank 1, which has
  // no rows, and rank 2 need those of rank 2, which takes longer than the deadline.
  for (std::size_t slot = 0; slot < data.ids.size(); ++slot) {
    data.ids[slot] = static_cast<std::int32_t>((slot < 16 ? 0 : 4) + slot % 2);
  }
  LayerRig rig(spec);
  const auto pause = real(progress_ms() / 3);
  rig.workspace(2).impl().hook = [&](std::uint32_t, std::uint32_t, const Task&) {
    std::this_thread::sleep_for(pause);
  };
  LayerResult result(data);
  std::vector<Context> contexts = rig.contexts();
  on_ranks(kNumRanks, [&](int rank) {
    const Status status =
        forward_and_backward(rig, data, result, contexts[static_cast<std::size_t>(rank)], rank);
    EXPECT_TRUE(status.ok()) << status.message();
  });
  EXPECT_EQ(first_excess(data.problem(), result), "");
}

}  // namespace
}  // namespace mok::testing
