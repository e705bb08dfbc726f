// nan_test.cpp: NaN and Inf in one token stay in that token and in the experts that it is routed to.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "support/layer_rig.hpp"

namespace mok::testing {
namespace {

enum class Where : std::uint8_t { kX, kDy, kWeight };
struct Value {
  const char* name;
  Where where;
  float value;
};
void PrintTo(const Value& value, std::ostream* out) {
  *out << value.name;
}

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

class OneBadToken : public ::testing::TestWithParam<Value> {};
INSTANTIATE_TEST_SUITE_P(Values, OneBadToken,
                         ::testing::Values(Value{"NanInX", Where::kX, kNan},
                                           Value{"InfInX", Where::kX, kInf},
                                           Value{"NanInDy", Where::kDy, kNan},
                                           Value{"InfInDy", Where::kDy, -kInf},
                                           Value{"NanInWeight", Where::kWeight, kNan},
                                           Value{"InfInWeight", Where::kWeight, kInf}),
                         [](const auto& test) { return test.param.name; });

// Elements of `a` and `b` outside [first, last) are equal; inside, when that is asked, some differ.
template <class T>
void expect_equal_outside(const std::vector<T>& a, const std::vector<T>& b, std::size_t first,
                          std::size_t last, const char* name) {
  const auto from = static_cast<std::ptrdiff_t>(first);
  const auto to = static_cast<std::ptrdiff_t>(last);
  EXPECT_TRUE(std::equal(a.begin(), a.begin() + from, b.begin())) << name << " before the token";
  EXPECT_TRUE(std::equal(a.begin() + to, a.end(), b.begin() + to)) << name << " after the token";
}

TEST_P(OneBadToken, ChangesNoOtherBit) {
  for (const std::string& engine : engines()) {
    LayerSpec spec;
    spec.tokens = {30, 41, 20};
    spec.experts = 9;
    spec.topk = 2;
    spec.output_gate = true;
    spec.limit = 1.5F;
    spec.options.engine = engine;
    const LayerData clean(spec);
    LayerData data = clean;
    const std::size_t token = 47;  // in the middle of rank 1, not the last row of a block
    const auto hidden = static_cast<std::size_t>(spec.hidden);
    const auto topk = static_cast<std::size_t>(spec.topk);
    switch (GetParam().where) {
      case Where::kX: data.x[token * hidden + 3] = to_bf16(GetParam().value); break;
      case Where::kDy: data.dy[token * hidden + 3] = to_bf16(GetParam().value); break;
      case Where::kWeight: data.weights[token * topk + 1] = GetParam().value; break;
    }
    const LayerResult expected = run_layer(clean);
    const LayerResult result = run_layer(data);
    expect_equal_outside(expected.y, result.y, token * hidden, (token + 1) * hidden, "y");
    expect_equal_outside(expected.dx, result.dx, token * hidden, (token + 1) * hidden, "dx");
    expect_equal_outside(expected.d_router, result.d_router, token * topk, (token + 1) * topk,
                         "d_router");
    int num_untouched = 0;
    for (std::size_t expert = 0; expert < static_cast<std::size_t>(spec.experts); ++expert) {
      const auto* ids = &data.ids[token * topk];
      if (std::find(ids, ids + topk, static_cast<std::int32_t>(expert)) != ids + topk) {
        continue;
      }
      ++num_untouched;
      const auto first = static_cast<std::ptrdiff_t>(expert * data.expert_elements());
      const auto last = static_cast<std::ptrdiff_t>((expert + 1) * data.expert_elements());
      for (const auto grad : {&LayerResult::gate, &LayerResult::up, &LayerResult::down}) {
        EXPECT_TRUE(std::equal((expected.*grad).bf16.begin() + first,
                               (expected.*grad).bf16.begin() + last,
                               (result.*grad).bf16.begin() + first))
            << "expert " << expert;
      }
    }
    EXPECT_GE(num_untouched, 7);
    // And it does show where it belongs.
    EXPECT_NE(first_difference(expected, result, Shared::kSkip), "") << engine;
  }
}

}  // namespace
}  // namespace mok::testing
