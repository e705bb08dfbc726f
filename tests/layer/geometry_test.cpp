// geometry_test.cpp: the program with other blocks, tiles and rings than the usual: many more tasks a row.
#include <gtest/gtest.h>

#include "support/layer_rig.hpp"
#include "support/random.hpp"

namespace mok::testing {
namespace {

template <class T>
T one_of(Random& random, std::initializer_list<T> values) {
  return values.begin()[random.below(static_cast<std::uint32_t>(values.size()))];
}

Geometry draw_geometry(Random& random) {
  Geometry geo;
  geo.row_pad = one_of(random, {4U, 8U, 16U});
  geo.block_rows = geo.row_pad * one_of(random, {1U, 2U, 4U});
  geo.stripe_rows = one_of(random, {2U, 4U});
  geo.tile_cols = one_of(random, {16U, 32U});
  geo.wgrad_rows = one_of(random, {8U, 24U});
  geo.token_stripe = geo.block_rows / one_of(random, {1U, 2U, 4U});
  geo.partial_cols = one_of(random, {4U, 8U, 16U});
  geo.look_ahead = one_of(random, {1U, 2U, 3U});
  geo.cells = geo.look_ahead + 1;
  geo.segment_rows = one_of(random, {16U, 40U, 8192U});
  return geo;
}

LayerSpec draw_spec(std::uint64_t seed) {
  Random random(seed);
  LayerSpec spec;
  spec.seed = seed;
  spec.tokens.clear();
  for (std::uint32_t rank = random.between(1, 3); rank-- > 0;) {
    spec.tokens.push_back(random.one_in(5) ? 0 : random.between(1, 120));
  }
  spec.max_tokens = 120;
  spec.experts = random.between(1, 7);
  spec.topk =
      random.between(1, static_cast<std::uint32_t>(std::min<std::int64_t>(spec.experts, 3)));
  spec.output_gate = random.one_in(2);
  spec.routes = random.one_in(2) ? Routes::kSkewed : Routes::kSomeOff;
  spec.geo = draw_geometry(random);
  Options& o = spec.options;
  o.ring_rows = smallest_ring_rows();
  o.saved_rows = one_of<std::int64_t>(random, {0, 64, 1024});
  o.workers = static_cast<int>(random.between(1, 3));
  o.dispatch = static_cast<Dispatch>(random.below(2));
  o.dy_dispatch = static_cast<Dispatch>(random.below(2));
  o.combine = static_cast<Combine>(random.below(3));
  o.dx_combine = static_cast<Combine>(random.below(3));
  return spec;
}

TEST(SmallGeometry, IsWithinBound) {
  for (std::uint64_t i = 0; i < (kSanitized ? 12 : 40); ++i) {
    const LayerSpec spec = draw_spec(1000 * test_seed() + i);
    const LayerData data(spec);
    const LayerResult result = run_layer(data);
    EXPECT_EQ(first_excess(data.problem(), result), "") << spec;
  }
}

}  // namespace
}  // namespace mok::testing
