// bits_test.cpp: results do not depend on the number of ranks, workers, rings, directions, policy or on
// timing (levels run_to_run, schedule_invariant, ep_invariant).
#include <gtest/gtest.h>

#include <functional>

#include "support/layer_rig.hpp"

namespace mok::testing {
namespace {

constexpr std::int64_t kTokens = 180;

// One expert with more rows than two cells of the smallest ring, one without; -1 and repeated ids.
LayerSpec base_spec(const std::string& engine) {
  LayerSpec spec;
  spec.tokens = {kTokens};
  spec.hidden = 72;
  spec.intermediate = 40;
  spec.shared = 24;
  spec.experts = 5;
  spec.topk = 3;
  spec.output_gate = true;
  spec.limit = 0.9F;
  spec.routes = Routes::kSkewed;
  spec.options.engine = engine;
  return spec;
}
LayerSpec with_ranks(const std::string& engine, std::vector<std::int64_t> tokens) {
  LayerSpec spec = base_spec(engine);
  spec.tokens = std::move(tokens);
  return spec;
}

class Bits : public ::testing::TestWithParam<std::string> {
 protected:
  // Every option that is not to change a bit, against the base.
  static void expect_same(const LayerSpec& base, const std::function<void(LayerSpec&)>& change) {
    const LayerResult expected = run_layer(LayerData(base));
    LayerSpec spec = base;
    change(spec);
    EXPECT_EQ(first_difference(expected, run_layer(LayerData(spec)), Shared::kCompare), "") << spec;
  }
};
INSTANTIATE_TEST_SUITE_P(Engines, Bits, ::testing::ValuesIn(engines()),
                         [](const auto& test) { return test.param; });

// B37: and with an even or uneven split of the tokens, ranks without tokens or experts among them.
TEST_P(Bits, B37DoNotDependOnNumberOfRanks) {
  const LayerResult expected = run_layer(LayerData(base_spec(GetParam())));
  for (const int num_ranks : {2, 3, 4, 6, 8}) {
    for (const auto& tokens :
         {split_evenly(kTokens, num_ranks), split_unevenly(kTokens, num_ranks)}) {
      const LayerData data(with_ranks(GetParam(), tokens));
      EXPECT_EQ(first_difference(expected, run_layer(data), Shared::kSkip), "") << data.spec;
    }
  }
}

// The shared expert's gradients are sums over a rank's tokens: equal for the same split.
TEST_P(Bits, SharedGradientsAreEqualForEqualSplits) {
  expect_same(with_ranks(GetParam(), {100, 0, 80}), [](LayerSpec& spec) {
    spec.options.workers = 2;
    spec.options.saved_rows = 64;
    spec.options.combine = Combine::kPull;
  });
}

TEST_P(Bits, DoNotDependOnWorkers) {
  for (const int workers : {2, 3}) {
    expect_same(with_ranks(GetParam(), {100, 80}),
                [&](LayerSpec& spec) { spec.options.workers = workers; });
  }
}

TEST_P(Bits, DoNotDependOnRing) {
  for (const std::int64_t rows : {384, 448, 576, 768, 4096}) {
    expect_same(with_ranks(GetParam(), {100, 80}),
                [&](LayerSpec& spec) { spec.options.ring_rows = rows; });
  }
}

TEST_P(Bits, DoNotDependOnSavedRows) {
  for (const std::int64_t rows : {0, 64, 128, 256, 320, 4096}) {
    expect_same(with_ranks(GetParam(), {100, 80}),
                [&](LayerSpec& spec) { spec.options.saved_rows = rows; });
  }
}

TEST_P(Bits, DoNotDependOnPolicy) {
  expect_same(with_ranks(GetParam(), {100, 80}),
              [](LayerSpec& spec) { spec.options.save = Save::kNone; });
}

TEST_P(Bits, DoNotDependOnDirections) {
  LayerSpec base = with_ranks(GetParam(), {60, 0, 120});
  base.options.ring_rows = smallest_ring_rows();
  base.options.saved_rows = 64;
  const LayerResult expected = run_layer(LayerData(base));
  for (int i = 0; i < 36; ++i) {
    LayerSpec spec = base;
    spec.options.dispatch = static_cast<Dispatch>(i % 2);
    spec.options.dy_dispatch = static_cast<Dispatch>(i / 2 % 2);
    spec.options.combine = static_cast<Combine>(i / 4 % 3);
    spec.options.dx_combine = static_cast<Combine>(i / 12);
    EXPECT_EQ(first_difference(expected, run_layer(LayerData(spec)), Shared::kCompare), "") << spec;
  }
}

// B11: 20 runs with more threads than cores, on one workspace and on new ones.
TEST_P(Bits, B11DoNotDependOnTiming) {
  LayerSpec spec = with_ranks(GetParam(), {70, 60, 50});
  spec.options.workers = 3;
  spec.options.ring_rows = smallest_ring_rows();
  spec.options.dispatch = Dispatch::kPush;
  spec.options.combine = Combine::kPull;
  const LayerData data(spec);
  LayerRig rig(spec);
  const LayerResult expected = run_layer(rig, data);
  for (int i = 0; i < 20; ++i) {
    const LayerResult again = i % 5 == 0 ? run_layer(data) : run_layer(rig, data);
    ASSERT_EQ(first_difference(expected, again, Shared::kCompare), "") << "run " << i;
  }
}

class Checkpointing : public Bits {
 protected:
  enum class Then : std::uint8_t { kBackward, kRecompute };
  static void expect_equal_bits(const LayerSpec& spec, Then then) {
    const LayerData data(spec);
    const LayerResult expected = run_layer(data);
    LayerRig rig(spec);
    LayerResult result(data);
    std::vector<Context> contexts = rig.contexts();
    ASSERT_EQ(failures(rig.forward(data, result, &contexts)), "");
    for (Context& context : contexts) {
      const std::uint64_t before = context.allocated_bytes();
      release_saved(context);
      EXPECT_LT(context.allocated_bytes(), before);
      EXPECT_TRUE(context.filled());
      EXPECT_EQ(context.routes().saved_rows, 0);
    }
    if (then == Then::kRecompute) {
      ASSERT_EQ(failures(rig.recompute(data, contexts)), "");
    }
    ASSERT_EQ(failures(rig.backward(data, result, contexts)), "");
    EXPECT_EQ(first_difference(expected, result, Shared::kCompare), "") << spec;
    const bool replays = then == Then::kBackward;
    for (const CallReport& report : result.backward) {
      EXPECT_EQ(report.replayed_rows, replays ? report.rows : 0);
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Engines, Checkpointing, ::testing::ValuesIn(engines()),
                         [](const auto& test) { return test.param; });

TEST_P(Checkpointing, RecomputeThenBackwardEqualsPlain) {
  for (const Dispatch dispatch : {Dispatch::kPull, Dispatch::kPush}) {
    LayerSpec spec = with_ranks(GetParam(), {100, 80});
    spec.options.dispatch = dispatch;
    expect_equal_bits(spec, Then::kRecompute);
  }
}

TEST_P(Checkpointing, BackwardOfReleasedContextEqualsPlain) {
  for (const Dispatch dispatch : {Dispatch::kPull, Dispatch::kPush}) {
    LayerSpec spec = with_ranks(GetParam(), {100, 80});
    spec.options.dispatch = dispatch;
    spec.options.ring_rows = smallest_ring_rows();
    expect_equal_bits(spec, Then::kBackward);
  }
}

}  // namespace
}  // namespace mok::testing
