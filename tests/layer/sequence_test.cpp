// sequence_test.cpp: many calls on one workspace: sizes that change, layers, micro-batches, contexts in
// any order. Each result must equal that of a workspace of its own, bit for bit.
#include <gtest/gtest.h>

#include <functional>

#include "support/layer_rig.hpp"

namespace mok::testing {
namespace {

LayerSpec base_spec() {
  LayerSpec spec;
  spec.tokens = {60, 0, 45};
  spec.max_tokens = 140;
  spec.experts = 7;
  spec.topk = 2;
  spec.output_gate = true;
  spec.routes = Routes::kSkewed;
  spec.options.ring_rows = smallest_ring_rows();
  spec.options.saved_rows = 128;
  spec.options.workers = 2;
  return spec;
}
LayerSpec other_batch(LayerSpec spec, std::uint64_t seed) {
  spec.seed = seed;
  return spec;
}

// One forward with its context and its results, on a common rig.
struct Pass {
  explicit Pass(const LayerSpec& spec, LayerRig& on)
      : data(spec), rig(on), result(data), contexts(rig.contexts()) {}

  void forward() { ASSERT_EQ(failures(rig.forward(data, result, &contexts)), ""); }
  void backward() { ASSERT_EQ(failures(rig.backward(data, result, contexts)), ""); }
  void expect_alone() const {
    EXPECT_EQ(first_difference(run_layer(data), result, Shared::kCompare), "") << data.spec;
  }

  LayerData data;
  LayerRig& rig;
  LayerResult result;
  std::vector<Context> contexts;
};

// B03: T max, 1, 0, max, 127, uneven over the ranks, with other routing each time.
TEST(Sequence, B03TokensShrinkAndGrow) {
  for (const Dispatch dispatch : {Dispatch::kPull, Dispatch::kPush}) {
    LayerSpec spec = base_spec();
    spec.options.dispatch = spec.options.dy_dispatch = dispatch;
    LayerRig rig(spec);
    const std::vector<std::vector<std::int64_t>> tokens{{140, 140, 140}, {1, 0, 0},   {0, 0, 0},
                                                        {0, 140, 3},     {127, 1, 0}, {0, 0, 140}};
    const Routes routes[] = {Routes::kUniform,   Routes::kSomeOff, Routes::kOneRank,
                             Routes::kOneExpert, Routes::kAllOff,  Routes::kSkewed};
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      LayerSpec call = spec;
      call.tokens = tokens[i];
      call.routes = routes[i];
      call.seed = i + 1;
      Pass pass(call, rig);
      pass.forward();
      pass.backward();
      pass.expect_alone();
      EXPECT_EQ(first_excess(pass.data.problem(), pass.result), "") << call;
    }
  }
}

TEST(Sequence, FourLayersForwardThenBackwardInReverse) {
  LayerRig rig(base_spec());
  std::vector<Pass> layers;
  for (std::uint64_t layer = 1; layer <= 4; ++layer) {
    layers.emplace_back(other_batch(base_spec(), layer), rig);
  }
  for (Pass& layer : layers) {
    layer.forward();
  }
  for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer) {
    layer->backward();
  }
  for (const Pass& layer : layers) {
    layer.expect_alone();
  }
}

// F and B with the number of the micro-batch, as pipeline schedules order them.
struct Schedule {
  const char* name;
  std::vector<int> calls;  // +n: forward of n, -n: backward of n
};
void PrintTo(const Schedule& schedule, std::ostream* out) {
  *out << schedule.name;
}
class Schedules : public ::testing::TestWithParam<Schedule> {};
INSTANTIATE_TEST_SUITE_P(Orders, Schedules,
                         ::testing::Values(Schedule{"InOrder", {1, -1, 2, -2}},
                                           Schedule{"FirstInFirstOut", {1, 2, -1, -2}},
                                           Schedule{"LastInFirstOut", {1, 2, -2, -1}},
                                           Schedule{"OneForwardOneBackward", {1, 2, -1, 3, -2, -3}},
                                           Schedule{"ForwardWithoutBackward", {1, 2, 3, -3}},
                                           Schedule{"BackwardTwice", {1, 2, -1, -2, -1}},
                                           Schedule{"ContextReused", {1, -1, 2, 1, -2, -1}}),
                         [](const auto& test) { return test.param.name; });

TEST_P(Schedules, InterleavedMicroBatchesAreIndependent) {
  for (const Save save : {Save::kAll, Save::kNone}) {
    LayerSpec spec = base_spec();
    spec.options.save = save;
    LayerRig rig(spec);
    std::vector<Pass> passes;
    for (std::uint64_t i = 1; i <= 3; ++i) {
      passes.emplace_back(other_batch(spec, i), rig);
    }
    std::vector<bool> done(3);
    for (const int call : GetParam().calls) {
      const auto i = static_cast<std::size_t>(std::abs(call) - 1);
      if (call > 0) {
        passes[i].forward();
      } else {
        passes[i].result.dx.assign(passes[i].result.dx.size(), Bf16{0xffff});
        passes[i].backward();
        done[i] = true;
      }
    }
    for (std::size_t i = 0; i < 3; ++i) {
      if (done[i]) {
        passes[i].expect_alone();
      }
    }
  }
}

TEST(Sequence, ContextsMayBeDroppedAtAnyTime) {
  LayerRig rig(base_spec());
  Pass kept(base_spec(), rig);
  kept.forward();
  {
    Pass dropped(other_batch(base_spec(), 2), rig);
    dropped.forward();
  }
  kept.backward();
  kept.expect_alone();
}

// A context that has served one batch serves another one of other sizes.
TEST(Sequence, ContextServesAnotherBatch) {
  LayerRig rig(base_spec());
  Pass first(base_spec(), rig);
  first.forward();
  first.backward();
  LayerSpec spec = other_batch(base_spec(), 2);
  spec.tokens = {0, 140, 9};
  Pass second(spec, rig);
  second.contexts = std::move(first.contexts);
  second.forward();
  second.backward();
  second.expect_alone();
}

TEST(Sequence, InferenceBetweenForwardAndBackward) {
  LayerRig rig(base_spec());
  Pass training(base_spec(), rig);
  training.forward();
  const LayerData data(other_batch(base_spec(), 2));
  LayerResult inference(data);
  ASSERT_EQ(failures(rig.forward(data, inference, nullptr)), "");
  EXPECT_EQ(run_layer(data).y, inference.y);
  training.backward();
  training.expect_alone();
}

// A released context can be filled again by a forward, and read by backwards before and after a recompute.
TEST(Sequence, ReleasedContextIsUsedAgain) {
  LayerRig rig(base_spec());
  Pass pass(base_spec(), rig);
  pass.forward();
  for (Context& context : pass.contexts) {
    release_saved(context);
  }
  pass.backward();
  pass.expect_alone();
  ASSERT_EQ(failures(rig.recompute(pass.data, pass.contexts)), "");
  pass.backward();
  pass.expect_alone();
  for (Context& context : pass.contexts) {
    release_saved(context);
  }
  pass.forward();
  pass.backward();
  pass.expect_alone();
}

// Contexts fit every workspace of equal shape and options, and no other; the refusal leaves all usable.
TEST(Sequence, ContextsOfOtherShapesAreRefused) {
  LayerSpec spec = base_spec();
  spec.tokens = {20};
  LayerRig rig(spec);
  Pass pass(spec, rig);
  pass.forward();
  const std::function<void(LayerSpec&)> changes[] = {
      [](LayerSpec& s) { s.hidden = 48; },
      [](LayerSpec& s) { s.experts = 8; },
      [](LayerSpec& s) { s.limit = 2.0F; },
      [](LayerSpec& s) { s.options.saved_rows = 192; },
      [](LayerSpec& s) { s.options.save = Save::kNone; },
      [](LayerSpec& s) {
        s.tokens = {20, 20};
      }};
  for (const auto& change : changes) {
    LayerSpec other = spec;
    change(other);
    LayerRig others(other);
    std::vector<Context> contexts = others.contexts();
    const auto forward =
        mok::forward(rig.workspace(0), forward_args(pass.data, pass.result, 0, &contexts[0]));
    ASSERT_FALSE(forward) << other;
    EXPECT_EQ(forward.error().argument(), "context");
  }
  const std::vector<Context> empty = rig.contexts();
  const auto backward =
      mok::backward(rig.workspace(0), backward_args(pass.data, pass.result, 0, &empty[0]));
  ASSERT_FALSE(backward);
  EXPECT_EQ(backward.error().argument(), "context");
  EXPECT_EQ(backward.error().value(), "empty");
  pass.backward();
  pass.expect_alone();
}

}  // namespace
}  // namespace mok::testing
