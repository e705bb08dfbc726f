// shape_rules_test.cpp: each rule of shape and options, refused before anything is allocated, in terms of
// what the user passed (B43, B45, B75); and sizes that other systems refuse.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "support/layer_rig.hpp"

namespace mok::testing {
namespace {

struct Asked {
  LayerShape shape;
  Options options;
  int num_ranks = 2;
};

struct Rule {
  const char* name;
  const char* argument;
  const char* value;
  const char* rule;  // a part of it
  std::function<void(Asked&)> breaks;
};
void PrintTo(const Rule& rule, std::ostream* out) {
  *out << rule.name;
}

Asked good() {
  Asked s;
  s.shape.max_tokens = 100;
  s.shape.hidden = 64;
  s.shape.intermediate = 32;
  s.shape.shared_intermediate = 16;
  s.shape.experts = 7;
  s.shape.topk = 3;
  s.options.workers = 1;
  return s;
}

constexpr std::int64_t kGi = std::int64_t{1} << 30;
constexpr float kInf = std::numeric_limits<float>::infinity();

const Rule kRules[] = {
    {"NoRanks", "num_ranks", "0", "1 .. 65535", [](Asked& s) { s.num_ranks = 0; }},
    {"ManyRanks", "num_ranks", "65536", "1 .. 65535", [](Asked& s) { s.num_ranks = 65536; }},
    {"NegativeTokens", "max_tokens", "-1", "0 .. 2^31", [](Asked& s) { s.shape.max_tokens = -1; }},
    {"NoHidden", "hidden", "0", "multiple of 8", [](Asked& s) { s.shape.hidden = 0; }},
    {"OddHidden", "hidden", "4100", "multiple of 8", [](Asked& s) { s.shape.hidden = 4100; }},
    {"HugeHidden", "hidden", "2147483656", "8 .. 2^31",
     [](Asked& s) { s.shape.hidden = 2 * kGi + 8; }},
    {"NoIntermediate", "intermediate", "0", "multiple of 8",
     [](Asked& s) { s.shape.intermediate = 0; }},
    {"OddIntermediate", "intermediate", "12", "multiple of 8",
     [](Asked& s) { s.shape.intermediate = 12; }},
    {"OddShared", "shared_intermediate", "20", "multiple of 8",
     [](Asked& s) { s.shape.shared_intermediate = 20; }},
    {"NegativeShared", "shared_intermediate", "-8", "0 (no shared expert)",
     [](Asked& s) { s.shape.shared_intermediate = -8; }},
    {"NoExperts", "experts", "0", "1 .. 2^24", [](Asked& s) { s.shape.experts = 0; }},
    {"ExpertsOfARank", "experts", "131072", "65535 a rank",
     [](Asked& s) {
       s.num_ranks = 1;
       s.shape.experts = 131072;
     }},
    {"NoTopk", "topk", "0", "1 .. 32", [](Asked& s) { s.shape.topk = 0; }},
    {"MuchTopk", "topk", "33", "1 .. 32",
     [](Asked& s) {
       s.shape.topk = 33;
       s.shape.experts = 64;
     }},
    {"TopkOverExperts", "topk", "8", "at most experts = 7", [](Asked& s) { s.shape.topk = 8; }},
    {"GateWithoutShared", "output_gate", "on", "needs a shared expert",
     [](Asked& s) {
       s.shape.output_gate = true;
       s.shape.shared_intermediate = 0;
     }},
    {"ZeroLimit", "swiglu_limit", "0.000000", "above 0",
     [](Asked& s) { s.shape.swiglu_limit = 0.0F; }},
    {"NanLimit", "swiglu_limit", "nan", "finite",
     [](Asked& s) { s.shape.swiglu_limit = std::nanf(""); }},
    {"InfLimit", "swiglu_limit", "inf", "finite", [](Asked& s) { s.shape.swiglu_limit = kInf; }},
    {"SmallRing", "ring_rows", "320", "at least 384", [](Asked& s) { s.options.ring_rows = 320; }},
    {"OddRing", "ring_rows", "400", "multiple of 64", [](Asked& s) { s.options.ring_rows = 400; }},
    {"NegativeRing", "ring_rows", "-64", "at least 384",
     [](Asked& s) { s.options.ring_rows = -64; }},
    {"HugeRing", "ring_rows", "2147483712", "2^31",
     [](Asked& s) { s.options.ring_rows = 2 * kGi + 64; }},
    {"UnknownDispatch", "dispatch", "9", "enumerators",
     [](Asked& a) { a.options.dispatch = static_cast<Dispatch>(9); }},
    {"UnknownCombine", "dx_combine", "3", "enumerators",
     [](Asked& a) { a.options.dx_combine = static_cast<Combine>(3); }},
    {"UnknownSave", "save", "2", "enumerators",
     [](Asked& a) { a.options.save = static_cast<Save>(2); }},
    {"OddSaved", "saved_rows", "100", "multiple of 64",
     [](Asked& s) { s.options.saved_rows = 100; }},
    {"NegativeSaved", "saved_rows", "-2", "0 .. 2^31", [](Asked& s) { s.options.saved_rows = -2; }},
    {"NegativeWorkers", "workers", "-1", "1024", [](Asked& s) { s.options.workers = -1; }},
    {"ManyWorkers", "workers", "1025", "1024", [](Asked& s) { s.options.workers = 1025; }},
    {"NoJoinDeadline", "join_deadline_ms", "0", "1 ..",
     [](Asked& s) { s.options.join_deadline_ms = 0; }},
    {"NoProgressDeadline", "progress_deadline_ms", "0", "1 ..",
     [](Asked& s) { s.options.progress_deadline_ms = 0; }},
    {"B43TooManyRows", "max_tokens", "1073741824", "tokens * topk * ranks",
     [](Asked& s) { s.shape.max_tokens = kGi; }},
    {"TooManyTasks", "hidden", "2147483640", "below 2^32",
     [](Asked& s) { s.shape.hidden = s.shape.intermediate = 2 * kGi - 8; }},
    {"TooManyPieces", "max_tokens", "1048576", "below 2^28",
     [](Asked& s) {
       s.shape.max_tokens = kGi / 1024;
       s.shape.hidden = 32768;
       s.shape.intermediate = 8;
     }},
    {"Over64Bits", "shape", "over 2^64 bytes", "fit 64 bits",
     [](Asked& s) {
       s.shape.max_tokens = 1;
       s.shape.topk = 1;
       s.shape.experts = 2;
       s.shape.hidden = kGi;
       s.shape.intermediate = 64;
       s.shape.shared_intermediate = 0;
       s.options.combine = Combine::kPush;
       s.options.ring_rows = s.options.saved_rows = 2 * kGi;
     }},
};

class ShapeRules : public ::testing::TestWithParam<Rule> {};
INSTANTIATE_TEST_SUITE_P(Rules, ShapeRules, ::testing::ValuesIn(kRules),
                         [](const auto& test) { return test.param.name; });

TEST_P(ShapeRules, AreNamed) {
  const Rule& rule = GetParam();
  Asked asked = good();
  ASSERT_TRUE(memory_formula(asked.shape, asked.options, asked.num_ranks));
  rule.breaks(asked);
  const auto formula = memory_formula(asked.shape, asked.options, asked.num_ranks);
  ASSERT_FALSE(formula);
  std::vector<Status> refusals{
      formula.error(), workspace_bytes(asked.shape, asked.options, asked.num_ranks).error()};
  if (asked.num_ranks == 2) {
    const auto made = Workspace::create(World::local(2).value()[0], asked.shape, asked.options);
    ASSERT_FALSE(made);
    refusals.push_back(made.error());
  }
  for (const Status& status : refusals) {
    EXPECT_EQ(status.code(), Code::kBadArgument);
    EXPECT_EQ(status.argument(), rule.argument) << status.message();
    EXPECT_EQ(status.value(), rule.value) << status.message();
    EXPECT_NE(status.rule().find(rule.rule), std::string::npos) << status.message();
  }
}

// B45, B75 and others: hidden sizes, expert counts and group sizes that are on no list.
TEST(ShapesAccepted, OddOnes) {
  const auto expect_accepted = [](const std::function<void(Asked&)>& change) {
    Asked asked = good();
    change(asked);
    const Status status = validate(asked.shape, asked.options, asked.num_ranks);
    EXPECT_TRUE(status.ok()) << status.message();
  };
  for (const std::int64_t hidden : {8, 2880, 6144, 7168, 10240}) {
    expect_accepted([&](Asked& s) { s.shape.hidden = hidden; });
  }
  for (const int num_ranks : {1, 3, 72, 161, 576, 65535}) {
    expect_accepted([&](Asked& s) { s.num_ranks = num_ranks; });
  }
  expect_accepted([](Asked& s) { s.shape.max_tokens = 0; });
  expect_accepted([](Asked& s) {
    s.shape.max_tokens = 65536;
    s.shape.hidden = 7168;
    s.shape.experts = 256;
    s.shape.topk = 8;
    s.num_ranks = 8;
  });
  expect_accepted([](Asked& s) {
    s.shape.topk = 32;
    s.shape.experts = 32;
  });
}

}  // namespace
}  // namespace mok::testing
