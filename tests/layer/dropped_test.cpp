// dropped_test.cpp: a workspace that is dropped before every rank has made its own does not leave the
// others waiting, and the next ones of the same World are in step.
#include <gtest/gtest.h>

#include <optional>
#include <thread>
#include <vector>

#include "mok/layer.hpp"

namespace mok {
namespace {

LayerShape small_shape() {
  LayerShape shape;
  shape.max_tokens = 4;
  shape.hidden = 8;
  shape.intermediate = 8;
  shape.experts = 2;
  shape.topk = 1;
  return shape;
}

// A forward without tokens: what matters here is whether the ranks meet.
Result<CallReport> meet(Workspace& workspace) {
  static const std::vector<Bf16> weights(64);
  ForwardArgs args;
  args.weights.gate = args.weights.up = args.weights.down = {weights.data(), 64, 8, nullptr};
  return forward(workspace, args);
}

TEST(DroppedWorkspace, FailsTheOthersAtOnceAndTheNextOnesMeet) {
  const std::vector<World> worlds = World::local(2).value();
  const LayerShape shape = small_shape();
  std::optional<Workspace> first = Workspace::create(worlds[0], shape, {}).value();
  first.reset();
  Workspace lone = Workspace::create(worlds[1], shape, {}).value();
  const Result<CallReport> refused = meet(lone);  // the join deadline is 10 minutes
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kEnvironment);
  EXPECT_EQ(refused.error().argument(), "workspace");
  EXPECT_EQ(refused.error().value(), "of rank 0");

  Workspace a = Workspace::create(worlds[0], shape, {}).value();
  Workspace b = Workspace::create(worlds[1], shape, {}).value();
  Result<CallReport> met = failure(Status{});
  std::jthread other([&] { met = meet(a); });
  EXPECT_TRUE(meet(b));
  other.join();
  EXPECT_TRUE(met);
}

}  // namespace
}  // namespace mok
