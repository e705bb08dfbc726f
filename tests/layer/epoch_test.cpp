// epoch_test.cpp: call numbers wrap around without a trace in the results.
#include <gtest/gtest.h>

#include "support/layer_rig.hpp"

namespace mok::testing {
namespace {

// B57: calls across the wrap of the 32-bit call number, of its sign, and of the counters' 4-bit tag.
struct Wrap {
  const char* name;
  Epoch first_epoch;
};
void PrintTo(const Wrap& wrap, std::ostream* out) {
  *out << wrap.name;
}
class B57Wrap : public ::testing::TestWithParam<Wrap> {};
INSTANTIATE_TEST_SUITE_P(Epochs, B57Wrap,
                         ::testing::Values(Wrap{"CallNumber", 0xfffffffcU},
                                           Wrap{"Sign", 0x7ffffffcU},
                                           Wrap{"SixteenBits", 0x0000fffcU},
                                           Wrap{"Tag", 0x0000000cU}),
                         [](const auto& test) { return test.param.name; });

TEST_P(B57Wrap, LeavesBitsAlone) {
  for (const Dispatch dispatch : {Dispatch::kPull, Dispatch::kPush}) {
    LayerSpec spec;
    spec.tokens = {90, 0, 60};
    spec.topk = 3;
    spec.routes = Routes::kSkewed;
    spec.options.workers = 2;
    spec.options.ring_rows = smallest_ring_rows();
    spec.options.saved_rows = 64;
    spec.options.dispatch = spec.options.dy_dispatch = dispatch;
    spec.options.combine = spec.options.dx_combine =
        dispatch == Dispatch::kPull ? Combine::kScatter : Combine::kPull;
    const LayerData data(spec);
    const LayerResult expected = run_layer(data);
    LayerSpec late = spec;
    late.first_epoch = GetParam().first_epoch;
    LayerRig rig(late);
    for (Epoch call = 0; call < 8; call += 2) {
      const LayerResult result = run_layer(rig, data);
      EXPECT_EQ(first_difference(expected, result, Shared::kCompare), "") << "call " << call;
      EXPECT_EQ(result.forward[0].epoch, static_cast<Epoch>(late.first_epoch + call));
      EXPECT_EQ(result.backward[2].epoch, static_cast<Epoch>(late.first_epoch + call + 1));
    }
  }
}

// More calls than the tag has values: a stale counter of 16 calls before must not look ready.
TEST(Epochs, FortyCallsInARow) {
  LayerSpec spec;
  spec.tokens = {5, 9};
  spec.options.workers = 2;
  const LayerData data(spec);
  LayerRig rig(spec);
  const LayerResult expected = run_layer(data);
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(first_difference(expected, run_layer(rig, data), Shared::kCompare), "") << i;
  }
}

}  // namespace
}  // namespace mok::testing
