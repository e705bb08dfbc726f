// pairing_test.cpp: late, missing and disagreeing ranks: who enters which call with whom.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <thread>

#include "layer/three_ranks.hpp"

namespace mok::testing {
namespace {

// Ranks may enter a call far apart, whatever moves their rows.
TEST(LateRank, DoesNotTimeOut) {
  LayerSpec spec = three_ranks();
  spec.options.progress_deadline_ms = progress_ms() / 2;
  spec.options.dispatch = spec.options.dy_dispatch = Dispatch::kPush;
  const LayerData data(spec);
  LayerRig rig(spec);
  LayerResult result(data);
  std::vector<Context> contexts = rig.contexts();
  const auto late = real(progress_ms() * 3 / 2);
  on_ranks(kNumRanks, [&](int rank) {
    Context& context = contexts[static_cast<std::size_t>(rank)];
    if (rank == 2) {
      std::this_thread::sleep_for(late);
    }
    const auto forward =
        mok::forward(rig.workspace(rank), forward_args(data, result, rank, &context));
    ASSERT_TRUE(forward) << forward.error().message();
    if (rank == 0) {
      std::this_thread::sleep_for(late);
    }
    const auto backward =
        mok::backward(rig.workspace(rank), backward_args(data, result, rank, &context));
    ASSERT_TRUE(backward) << backward.error().message();
  });
  EXPECT_EQ(first_excess(data.problem(), result), "");
}

TEST(Join, MissingRankIsNamed) {
  LayerSpec spec = three_ranks();
  spec.options.join_deadline_ms = progress_ms();
  const LayerData data(spec);
  auto worlds = World::local(kNumRanks).value();
  LayerResult result(data);
  std::vector<Status> status(2);
  on_ranks(2, [&](int rank) {
    auto workspace =
        Workspace::create(worlds[static_cast<std::size_t>(rank)], spec.shape(), spec.options);
    auto report = mok::forward(workspace.value(), forward_args(data, result, rank, nullptr));
    status[static_cast<std::size_t>(rank)] = report ? Status{} : report.error();
  });
  for (const Status& s : status) {  // B59: waited-for rank, place, counts, call
    EXPECT_EQ(s.code(), Code::kTimeout);
    EXPECT_NE(s.message().find("rank 2 at join, expected 1, seen 0, call 1"), std::string::npos)
        << s.message();
  }
  auto late = Workspace::create(worlds[2], spec.shape(), spec.options);
  const auto report = mok::forward(late.value(), forward_args(data, result, 2, nullptr));
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code(), Code::kTimeout);  // the call that the others gave up
  EXPECT_EQ(report.error().wait().reporter, status[0].wait().reporter);
}

// The rank has a workspace but never makes the call.
TEST(Join, RankThatNeverCallsIsNamed) {
  for (const Dispatch dispatch : {Dispatch::kPull, Dispatch::kPush}) {
    LayerSpec spec = three_ranks();
    spec.options.join_deadline_ms = progress_ms();
    spec.options.dispatch = spec.options.dy_dispatch = dispatch;
    const LayerData data(spec);
    LayerRig rig(spec);
    LayerResult result(data);
    std::vector<Context> contexts = rig.contexts();
    ASSERT_EQ(failures(rig.forward(data, result, &contexts)), "");
    on_ranks(2, [&](int rank) {
      const auto report = mok::backward(
          rig.workspace(rank),
          backward_args(data, result, rank, &contexts[static_cast<std::size_t>(rank)]));
      ASSERT_FALSE(report);
      EXPECT_EQ(report.error().code(), Code::kTimeout) << report.error().message();
      EXPECT_EQ(report.error().wait().rank, 2) << report.error().message();
      EXPECT_EQ(report.error().wait().epoch, 2U);
    });
  }
}

// B53: ranks that pair different calls all get the error, whatever the directions and the routing.
struct Pairing {
  const char* name;
  Dispatch dispatch;
  Routes routes;
};
void PrintTo(const Pairing& p, std::ostream* out) {
  *out << p.name;
}
class B53Mismatch : public ::testing::TestWithParam<Pairing> {
 protected:
  using CallOf = std::function<Result<CallReport>(int rank)>;
  static void expect_mismatch(const CallOf& call) {
    std::vector<Status> status(kNumRanks);
    on_ranks(kNumRanks, [&](int rank) {
      const Result<CallReport> report = call(rank);
      status[static_cast<std::size_t>(rank)] = report ? Status{} : report.error();
    });
    for (const Status& s : status) {
      EXPECT_EQ(s.code(), Code::kCallMismatch) << s.message();
    }
  }
  static LayerSpec spec() {
    LayerSpec spec = three_ranks();
    spec.options.progress_deadline_ms = 5000;
    spec.options.dispatch = spec.options.dy_dispatch = GetParam().dispatch;
    spec.routes = GetParam().routes;
    return spec;
  }
};
INSTANTIATE_TEST_SUITE_P(Layers, B53Mismatch,
                         ::testing::Values(Pairing{"Pull", Dispatch::kPull, Routes::kUniform},
                                           Pairing{"Push", Dispatch::kPush, Routes::kUniform},
                                           Pairing{"PullNoRows", Dispatch::kPull, Routes::kAllOff},
                                           Pairing{"PushOneExpert", Dispatch::kPush,
                                                   Routes::kOneExpert}),
                         [](const auto& test) { return test.param.name; });

TEST_P(B53Mismatch, ForwardWithBackward) {
  const LayerData data(spec());
  LayerRig rig(spec());
  LayerResult result(data);
  std::vector<Context> contexts = rig.contexts();
  ASSERT_EQ(failures(rig.forward(data, result, &contexts)), "");
  expect_mismatch([&](int rank) {
    return rank == 1 ? mok::forward(rig.workspace(rank), forward_args(data, result, rank, nullptr))
                     : mok::backward(rig.workspace(rank),
                                     backward_args(data, result, rank,
                                                   &contexts[static_cast<std::size_t>(rank)]));
  });
}

TEST_P(B53Mismatch, BackwardsOfDifferentContexts) {
  const LayerData data(spec());
  LayerRig rig(spec());
  LayerResult result(data);
  std::vector<std::vector<Context>> contexts;
  for (int i = 0; i < 2; ++i) {
    contexts.push_back(rig.contexts());
    ASSERT_EQ(failures(rig.forward(data, result, &contexts.back())), "");
  }
  expect_mismatch([&](int rank) {
    const Context& context = contexts[rank == 2 ? 1 : 0][static_cast<std::size_t>(rank)];
    return mok::backward(rig.workspace(rank), backward_args(data, result, rank, &context));
  });
}

// The first forward of one workspace is not the first forward of another.
TEST_P(B53Mismatch, BackwardsOfContextsOfDifferentWorkspaces) {
  const LayerData data(spec());
  LayerRig rig(spec());
  LayerRig other(spec(), rig.worlds());
  LayerResult result(data);
  std::vector<Context> contexts = rig.contexts();
  std::vector<Context> foreign = other.contexts();
  ASSERT_EQ(failures(rig.forward(data, result, &contexts)), "");
  ASSERT_EQ(failures(other.forward(data, result, &foreign)), "");
  expect_mismatch([&](int rank) {
    const Context& context = rank == 2 ? foreign[static_cast<std::size_t>(rank)]
                                       : contexts[static_cast<std::size_t>(rank)];
    return mok::backward(rig.workspace(rank), backward_args(data, result, rank, &context));
  });
}

TEST_P(B53Mismatch, RecomputeWithBackward) {
  const LayerData data(spec());
  LayerRig rig(spec());
  LayerResult result(data);
  std::vector<Context> contexts = rig.contexts();
  ASSERT_EQ(failures(rig.forward(data, result, &contexts)), "");
  expect_mismatch([&](int rank) {
    Context& context = contexts[static_cast<std::size_t>(rank)];
    if (rank != 0) {
      return mok::backward(rig.workspace(rank), backward_args(data, result, rank, &context));
    }
    RecomputeArgs args;
    args.context = &context;
    args.x = data.x.data();
    args.weights = data.rank_weights(0);
    return mok::recompute(rig.workspace(0), args);
  });
}

TEST(Join, DisagreeingOptionsAreNamed) {
  const auto expect_refusal = [](const std::function<void(LayerSpec&)>& change, const char* what) {
    LayerSpec specs[2];
    specs[0].tokens = specs[1].tokens = {8, 8};
    change(specs[1]);
    auto worlds = World::local(2).value();
    on_ranks(2, [&](int rank) {
      const LayerData data(specs[rank]);
      LayerResult result(data);
      auto workspace = Workspace::create(worlds[static_cast<std::size_t>(rank)],
                                         specs[rank].shape(), specs[rank].options);
      const auto report =
          mok::forward(workspace.value(), forward_args(data, result, rank, nullptr));
      ASSERT_FALSE(report);
      EXPECT_EQ(report.error().code(), Code::kCallMismatch) << report.error().message();
      EXPECT_NE(report.error().message().find(what), std::string::npos) << report.error().message();
    });
  };
  expect_refusal([](LayerSpec& s) { s.hidden = 48; }, "hidden 48");
  expect_refusal([](LayerSpec& s) { s.options.dispatch = Dispatch::kPush; }, "dispatch push");
  expect_refusal([](LayerSpec& s) { s.options.workers = 2; }, "workers 2");
  expect_refusal([](LayerSpec& s) { s.options.saved_rows = 64; }, "saved_rows 64");
  expect_refusal([](LayerSpec& s) { s.limit = 1e-7F; }, "swiglu_limit");
}

}  // namespace
}  // namespace mok::testing
