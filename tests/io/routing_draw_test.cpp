// routing_draw_test.cpp: drawn routing and the router, against definitions and a sorted reference.
#include "io/routing_draw.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <string>

#include "io/draw.hpp"
#include "io/hash.hpp"

namespace mok::io {
namespace {

constexpr std::uint64_t kSeed = 17;
constexpr std::uint64_t kStream = stream_id(Purpose::kRoutingLogit, 1, 2);
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Routing {
  std::vector<std::int32_t> ids;
  std::vector<float> weights;
  explicit Routing(std::size_t count) : ids(count, -7), weights(count, kNan) {}
  friend bool operator==(const Routing&, const Routing&) = default;
};

Routing drawn(DrawnRouting kind, RoutingShape shape, std::int64_t first, std::size_t num_tokens) {
  Routing out(num_tokens * static_cast<std::size_t>(shape.topk));
  const Status status = draw_routing(kind, shape, kSeed, kStream, first, out.ids, out.weights);
  EXPECT_TRUE(status.ok()) << status.message();
  return out;
}

void expect_valid(const Routing& routing, RoutingShape shape) {
  const auto topk = static_cast<std::size_t>(shape.topk);
  for (std::size_t at = 0; at < routing.ids.size(); at += topk) {
    std::set<std::int32_t> distinct;
    double sum = 0.0;
    for (std::size_t s = 0; s < topk; ++s) {
      ASSERT_GE(routing.ids[at + s], 0);
      ASSERT_LT(routing.ids[at + s], shape.num_experts);
      distinct.insert(routing.ids[at + s]);
      ASSERT_GE(routing.weights[at + s], 0.0F);
      sum += static_cast<double>(routing.weights[at + s]);
    }
    ASSERT_EQ(distinct.size(), topk);
    ASSERT_NEAR(sum, 1.0, 1e-6);
  }
}

TEST(RoutingDraw, IdsAreDistinctAndWeightsSumToOne) {
  for (const RoutingShape shape :
       {RoutingShape{1, 1}, {2, 2}, {7, 3}, {32, 32}, {64, 8}, {130, 1}}) {
    for (const DrawnRouting kind :
         {DrawnRouting::kUniform, DrawnRouting::kZipf, DrawnRouting::kHot}) {
      expect_valid(drawn(kind, shape, 0, 200), shape);
    }
  }
}

TEST(RoutingDraw, DoesNotDependOnTheSplit) {
  const RoutingShape shape{37, 5};
  for (const DrawnRouting kind :
       {DrawnRouting::kUniform, DrawnRouting::kZipf, DrawnRouting::kHot}) {
    const Routing whole = drawn(kind, shape, 100, 60);
    for (const std::size_t step : {1UL, 7UL, 59UL}) {
      Routing pieces(0);
      for (std::size_t t = 0; t < 60; t += step) {
        const Routing piece =
            drawn(kind, shape, 100 + static_cast<std::int64_t>(t), std::min(step, 60 - t));
        pieces.ids.insert(pieces.ids.end(), piece.ids.begin(), piece.ids.end());
        pieces.weights.insert(pieces.weights.end(), piece.weights.begin(), piece.weights.end());
      }
      EXPECT_EQ(pieces, whole);
    }
  }
}

// Softmax over all experts in binary64, sorted, renormalised: the words of the definition.
TEST(RoutingDraw, UniformFollowsItsDefinition) {
  const RoutingShape shape{20, 4};
  const Routing routing = drawn(DrawnRouting::kUniform, shape, 5, 50);
  for (std::size_t t = 0; t < 50; ++t) {
    std::vector<double> chance(20);
    for (std::size_t e = 0; e < 20; ++e) {
      chance[e] = std::exp(static_cast<double>(normal(kSeed, kStream, (5 + t) * 20 + e)));
    }
    std::vector<std::size_t> order(20);
    std::iota(order.begin(), order.end(), 0U);
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return chance[a] > chance[b]; });
    double chosen = 0.0;
    for (std::size_t s = 0; s < 4; ++s) {
      chosen += chance[order[s]];
    }
    for (std::size_t s = 0; s < 4; ++s) {
      EXPECT_EQ(routing.ids[t * 4 + s], static_cast<std::int32_t>(order[s]));
      EXPECT_NEAR(routing.weights[t * 4 + s], chance[order[s]] / chosen, 1e-6);
    }
  }
}

std::vector<int> counts_of(const Routing& routing, std::size_t num_experts) {
  std::vector<int> counts(num_experts);
  for (const std::int32_t id : routing.ids) {
    ++counts[static_cast<std::size_t>(id)];
  }
  return counts;
}

TEST(RoutingDraw, UniformIsBalancedAndZipfIsSkewed) {
  const RoutingShape shape{16, 2};
  constexpr int kTokens = 8000;
  const std::vector<int> uniform = counts_of(drawn(DrawnRouting::kUniform, shape, 0, kTokens), 16);
  for (const int count : uniform) {
    EXPECT_NEAR(count, kTokens * 2 / 16.0, 5.0 * std::sqrt(kTokens * 2 / 16.0));
  }
  const std::vector<int> zipf = counts_of(drawn(DrawnRouting::kZipf, shape, 0, kTokens), 16);
  for (std::size_t e = 0; e + 4 < 16; e += 4) {
    EXPECT_GT(zipf[e], zipf[e + 4] + 100) << e;
  }
  EXPECT_GT(zipf[0], 10 * zipf[15]);
  EXPECT_GT(zipf[15], 0);
}

TEST(RoutingDraw, HotSendsEveryTokenToExpertZero) {
  const RoutingShape shape{16, 3};
  constexpr int kTokens = 6000;
  const Routing routing = drawn(DrawnRouting::kHot, shape, 0, kTokens);
  for (std::size_t t = 0; t < kTokens; ++t) {
    ASSERT_EQ(routing.ids[t * 3], 0);
  }
  const std::vector<int> counts = counts_of(routing, 16);
  EXPECT_EQ(counts[0], kTokens);
  for (std::size_t e = 1; e < 16; ++e) {
    EXPECT_NEAR(counts[e], kTokens * 2 / 15.0, 5.0 * std::sqrt(kTokens * 2 / 15.0));
  }
}

TEST(RoutingDraw, SelectTopkBreaksTiesByIdAndTakesNan) {
  struct Case {
    std::vector<float> logits;
    std::vector<std::int32_t> ids;
    std::vector<float> weights;
  };
  const std::vector<Case> cases{
      {{1, 1, 1, 1}, {0, 1}, {0.5F, 0.5F}},
      {{0, 2, 2, 1}, {1, 2}, {0.5F, 0.5F}},
      {{kNan, kNan, kNan}, {0, 1}, {0.5F, 0.5F}},
      {{kNan, 3, kNan}, {1, 0}, {1, 0}},
      {{-kInf, kNan, -kInf}, {0, 1}, {0.5F, 0.5F}},
      {{0, kInf, kInf}, {1, 2}, {0.5F, 0.5F}},
      {{-kInf, kInf}, {1, 0}, {1, 0}},
      {{-kNan, 0}, {1, 0}, {1, 0}},
  };
  for (const Case& c : cases) {
    Routing out(2);
    select_topk(c.logits, 0, out.ids, out.weights);
    EXPECT_EQ(out.ids, c.ids) << testing::PrintToString(c.logits);
    EXPECT_EQ(out.weights, c.weights) << testing::PrintToString(c.logits);
  }
  Routing none(0);
  select_topk(cases[0].logits, 0, none.ids, none.weights);
}

TEST(Router, FollowsItsDefinition) {
  constexpr std::size_t kTokens = 40;
  // 67 is four rounds of the sixteen lanes and a rest.
  for (const std::size_t hidden : {8UL, 67UL}) {
    const Result<Router> router = Router::draw(12, static_cast<std::int64_t>(hidden), kSeed, 4);
    ASSERT_TRUE(router);
    std::vector<Bf16> x(kTokens * hidden);
    fill_normal_bf16(x, kSeed, 5, 0);
    Routing out(kTokens * 3);
    ASSERT_TRUE(router->route(x, 3, out.ids, out.weights).ok());
    expect_valid(out, {12, 3});
    for (std::size_t t = 0; t < kTokens; ++t) {
      std::vector<double> logits(12);
      for (std::size_t i = 0; i < 12 * hidden; ++i) {
        const float drawn_value = normal(kSeed, 4, i) / std::sqrt(static_cast<float>(hidden));
        EXPECT_NEAR(router->matrix()[i], drawn_value, std::abs(drawn_value) * 0x1p-8F);
        logits[i / hidden] += static_cast<double>(to_float(x[t * hidden + i % hidden])) *
                              static_cast<double>(router->matrix()[i]);
      }
      double chosen = 0.0;
      for (std::size_t s = 0; s < 3; ++s) {
        chosen += std::exp(logits[static_cast<std::size_t>(out.ids[t * 3 + s])]);
      }
      std::vector<double> sorted = logits;
      std::sort(sorted.rbegin(), sorted.rend());
      for (std::size_t s = 0; s < 3; ++s) {
        const double logit = logits[static_cast<std::size_t>(out.ids[t * 3 + s])];
        EXPECT_NEAR(logit, sorted[s], 1e-5);
        EXPECT_NEAR(out.weights[t * 3 + s], std::exp(logit) / chosen, 1e-5);
      }
    }
  }
}

TEST(Router, EqualStatesRouteAlikeAndBadStatesHurtNobody) {
  constexpr std::size_t kHidden = 24;
  const Result<Router> router = Router::draw(9, kHidden, kSeed, 4);
  ASSERT_TRUE(router);
  std::vector<Bf16> x(4 * kHidden);
  fill_word_state(std::span(x).first(kHidden), "work", 1);
  fill_word_state(std::span(x).subspan(kHidden, kHidden), "free", 1);
  fill_word_state(std::span(x).subspan(2 * kHidden, kHidden), "work", 1);
  fill_word_state(std::span(x).subspan(3 * kHidden, kHidden), "software", 1);
  Routing clean(8);
  ASSERT_TRUE(router->route(x, 2, clean.ids, clean.weights).ok());
  EXPECT_EQ(clean.ids[0], clean.ids[4]);
  EXPECT_EQ(clean.ids[1], clean.ids[5]);
  EXPECT_EQ(clean.weights[0], clean.weights[4]);
  for (const float bad : {kNan, kInf, -kInf}) {
    std::vector<Bf16> spoilt = x;
    spoilt[kHidden + 3] = to_bf16(bad);
    spoilt[kHidden + 4] = to_bf16(bad);
    Routing out(8);
    ASSERT_TRUE(router->route(spoilt, 2, out.ids, out.weights).ok());
    expect_valid(out, {9, 2});
    for (const std::size_t i : {0U, 1U, 4U, 5U, 6U, 7U}) {
      EXPECT_EQ(out.ids[i], clean.ids[i]);
      EXPECT_EQ(out.weights[i], clean.weights[i]);
    }
  }
}

// Pins the bits, as of the numbers below them: ids and weights are the same on every machine.
TEST(RoutingDraw, BitsArePinned) {
  Routing out(8000);
  const auto hash = [](const auto& values) {
    return hash_text(xxh64(std::as_bytes(std::span(values))));
  };
  ASSERT_TRUE(draw_routing(DrawnRouting::kZipf, {60, 4}, 1, 2, 0, out.ids, out.weights).ok());
  EXPECT_EQ(hash(out.ids), "xxh64:f38c08659f5fd56a");
  EXPECT_EQ(hash(out.weights), "xxh64:1ceb1a660e95620b");
  const Result<Router> router = Router::draw(60, 512, 1, 3);
  ASSERT_TRUE(router);
  std::vector<Bf16> x(2000UL * 512);
  fill_normal_bf16(x, 1, 4, 0);
  ASSERT_TRUE(router->route(x, 4, out.ids, out.weights).ok());
  EXPECT_EQ(hash(out.ids), "xxh64:d78535272e733a06");
  EXPECT_EQ(hash(out.weights), "xxh64:fb5f34a612c4e675");
}

TEST(RoutingDraw, RefusesBadArguments) {
  const auto message = [](RoutingShape shape, std::int64_t first, std::size_t num_ids,
                          std::size_t num_weights) {
    std::vector<std::int32_t> ids(num_ids);
    std::vector<float> weights(num_weights);
    return draw_routing(DrawnRouting::kUniform, shape, 1, 2, first, ids, weights).message();
  };
  EXPECT_EQ(message({0, 1}, 0, 1, 1), "bad_argument: experts = 0: must be from 1 to 1048576");
  EXPECT_EQ(message({1048577, 1}, 0, 1, 1),
            "bad_argument: experts = 1048577: must be from 1 to 1048576");
  const std::string tail = " (at most 32, at most the experts)";
  EXPECT_EQ(message({4, 0}, 0, 0, 0), "bad_argument: topk = 0: must be from 1 to 4" + tail);
  EXPECT_EQ(message({4, 5}, 0, 5, 5), "bad_argument: topk = 5: must be from 1 to 4" + tail);
  EXPECT_EQ(message({64, 33}, 0, 33, 33), "bad_argument: topk = 33: must be from 1 to 32" + tail);
  EXPECT_EQ(message({4, 2}, -1, 2, 2), "bad_argument: first_token = -1: must be at least 0");
  EXPECT_EQ(message({4, 2}, 0, 3, 3),
            "bad_argument: ids and weights = 3 and 3 elements: both must be tokens x topk");
  EXPECT_EQ(message({4, 2}, 0, 2, 4),
            "bad_argument: ids and weights = 2 and 4 elements: both must be tokens x topk");
  EXPECT_EQ(Router::draw(4, 0, 1, 1).error().message(),
            "bad_argument: hidden = 0: must be from 1 to 16777216");
  const Result<Router> router = Router::draw(4, 8, 1, 1);
  std::vector<Bf16> x(15);
  Routing out(4);
  EXPECT_EQ(router->route(x, 2, out.ids, out.weights).message(),
            "bad_argument: x = 15 elements: must be tokens x hidden = 2 x 8");
}

}  // namespace
}  // namespace mok::io
