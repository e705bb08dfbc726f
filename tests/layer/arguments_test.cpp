// arguments_test.cpp: each mistake in a call's arguments is refused with argument, value and rule, and
// nothing has been touched.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <limits>

#include "support/layer_rig.hpp"

namespace mok::testing {
namespace {

LayerSpec one_rank() {
  LayerSpec spec;
  spec.tokens = {6};
  spec.experts = 3;
  spec.output_gate = true;
  return spec;
}

struct Mistake {
  const char* argument;
  const char* value;
  const char* rule;  // a part of it
};
void expect_refusal(const Status& status, const Mistake& mistake) {
  EXPECT_EQ(status.code(), Code::kBadArgument) << mistake.argument;
  EXPECT_EQ(status.argument(), mistake.argument) << status.message();
  EXPECT_EQ(status.value(), mistake.value) << status.message();
  EXPECT_NE(status.rule().find(mistake.rule), std::string::npos) << status.message();
  EXPECT_EQ(status.message().find('\n'), std::string::npos);
  EXPECT_NE(status.message().find(std::string(mistake.argument) + " = " + mistake.value),
            std::string::npos);
}

// A rig with a filled context, ready for any call; whatever is refused, the right call works afterwards.
class Arguments : public ::testing::Test {
 protected:
  Arguments() : data_(one_rank()), rig_(one_rank()), result_(data_), contexts_(rig_.contexts()) {
    EXPECT_EQ(failures(rig_.forward(data_, result_, &contexts_)), "");
    result_ = LayerResult(data_);
  }
  ~Arguments() override {
    EXPECT_EQ(first_difference(LayerResult(data_), result_, Shared::kCompare), "")
        << "outputs touched";
    EXPECT_EQ(rig_.workspace(0).impl().epoch, 1U) << "a call was made";
    EXPECT_TRUE(contexts_[0].filled());
    EXPECT_EQ(failures(rig_.backward(data_, result_, contexts_)), "");
    const auto forward = mok::forward(rig_.workspace(0), forward_args(data_, result_, 0, nullptr));
    EXPECT_TRUE(forward);
    EXPECT_EQ(first_difference(run_layer(data_), result_, Shared::kCompare), "");
  }

  void expect_forward_refused(const Mistake& mistake,
                              const std::function<void(ForwardArgs&)>& change) {
    ForwardArgs args = forward_args(data_, result_, 0, contexts_.data());
    change(args);
    const auto report = mok::forward(rig_.workspace(0), args);
    ASSERT_FALSE(report) << mistake.argument;
    expect_refusal(report.error(), mistake);
  }
  void expect_backward_refused(const Mistake& mistake,
                               const std::function<void(BackwardArgs&)>& change) {
    BackwardArgs args = backward_args(data_, result_, 0, contexts_.data());
    change(args);
    const auto report = mok::backward(rig_.workspace(0), args);
    ASSERT_FALSE(report) << mistake.argument;
    expect_refusal(report.error(), mistake);
  }

  LayerData data_;
  LayerRig rig_;
  LayerResult result_;
  std::vector<Context> contexts_;
};

TEST_F(Arguments, StridesBeyondAnyMemory) {
  expect_forward_refused({"weights.gate.row_stride", "2305843009213693951", "beyond any memory"},
                         [](auto& a) {
                           a.weights.gate.row_stride = std::numeric_limits<std::int64_t>::max() / 4;
                           a.weights.gate.expert_stride = 0;
                         });
  expect_forward_refused(
      {"weights.down.expert_stride", "9223372036854775807", "beyond any memory"},
      [](auto& a) { a.weights.down.expert_stride = std::numeric_limits<std::int64_t>::max(); });
}

TEST_F(Arguments, UnknownKindsOfGradients) {
  expect_backward_refused({"grads.kind", "77", "enumerators of Grad"},
                          [](auto& a) { a.grads.kind = static_cast<Grad>(77); });
  expect_backward_refused({"grads.shared_kind", "9", "enumerators of Grad"},
                          [](auto& a) { a.grads.shared_kind = static_cast<Grad>(9); });
}

TEST_F(Arguments, ForwardTokens) {
  expect_forward_refused({"tokens", "-1", "0 .. max_tokens = 6"}, [](auto& a) { a.tokens = -1; });
  expect_forward_refused({"tokens", "7", "0 .. max_tokens = 6"}, [](auto& a) { a.tokens = 7; });
}

TEST_F(Arguments, ForwardPointers) {
  const char* rule = "must point to memory";
  expect_forward_refused({"x", "nullptr", rule}, [](auto& a) { a.x = nullptr; });
  expect_forward_refused({"y", "nullptr", rule}, [](auto& a) { a.y = nullptr; });
  expect_forward_refused({"routing.ids", "nullptr", rule},
                         [](auto& a) { a.routing.ids = nullptr; });
  expect_forward_refused({"routing.weights", "nullptr", rule},
                         [](auto& a) { a.routing.weights = nullptr; });
  expect_forward_refused({"weights.gate", "nullptr", rule},
                         [](auto& a) { a.weights.gate.base = nullptr; });
  expect_forward_refused({"weights.up", "nullptr", rule},
                         [](auto& a) { a.weights.up.base = nullptr; });
  expect_forward_refused({"weights.down", "nullptr", rule},
                         [](auto& a) { a.weights.down.base = nullptr; });
  expect_forward_refused({"weights.shared_gate", "nullptr", rule},
                         [](auto& a) { a.weights.shared_gate.base = nullptr; });
  expect_forward_refused({"weights.shared_up", "nullptr", rule},
                         [](auto& a) { a.weights.shared_up.base = nullptr; });
  expect_forward_refused({"weights.shared_down", "nullptr", rule},
                         [](auto& a) { a.weights.shared_down.base = nullptr; });
  expect_forward_refused({"weights.shared_output_gate", "nullptr", rule},
                         [](auto& a) { a.weights.shared_output_gate = nullptr; });
  const Bf16* const table[] = {data_.up.data(), data_.up.data(), nullptr};
  expect_forward_refused({"weights.up", "nullptr", rule},
                         [&](auto& a) { a.weights.up.table = table; });
}

TEST_F(Arguments, Strides) {
  expect_forward_refused({"weights.gate.row_stride", "39", "at least 40"},
                         [](auto& a) { a.weights.gate.row_stride = 39; });
  expect_forward_refused({"weights.down.row_stride", "0", "at least 24"},
                         [](auto& a) { a.weights.down.row_stride = 0; });
  expect_forward_refused({"weights.up.expert_stride", "959", "one expert's matrix"},
                         [](auto& a) { a.weights.up.expert_stride = 959; });
  expect_backward_refused({"grads.down.row_stride", "23", "at least 24"},
                          [](auto& a) { a.grads.down.row_stride = 23; });
  expect_backward_refused({"grads.gate.expert_stride", "-960", "one expert's matrix"},
                          [](auto& a) { a.grads.gate.expert_stride = -960; });
  expect_backward_refused({"grads.shared_down.row_stride", "15", "at least 16"},
                          [](auto& a) { a.grads.shared_down.row_stride = 15; });
}

// B49 and B13's other side: ids that are no experts, in both widths; the place is named.
TEST_F(Arguments, Ids) {
  std::vector<std::int32_t> ids = data_.ids;
  const auto use = [&](auto& a) { a.routing.ids = ids.data(); };
  ids[7] = 3;
  expect_forward_refused({"ids[3, 1]", "3", "-1 (no route) or 0 .. 2"}, use);
  ids[7] = -2;
  expect_forward_refused({"ids[3, 1]", "-2", "-1 (no route) or 0 .. 2"}, use);
  ids[0] = std::numeric_limits<std::int32_t>::max();
  expect_forward_refused({"ids[0, 0]", "2147483647", "0 .. 2"}, use);
  std::vector<std::int64_t> wide(data_.ids.begin(), data_.ids.end());
  wide[11] = std::int64_t{1} << 32;  // 0 when cut to 32 bits
  expect_forward_refused({"ids[5, 1]", "4294967296", "0 .. 2"}, [&](auto& a) {
    a.routing.ids = nullptr;
    a.routing.ids64 = wide.data();
  });
}

TEST_F(Arguments, Backward) {
  const char* rule = "must point to memory";
  expect_backward_refused({"context", "nullptr", rule}, [](auto& a) { a.context = nullptr; });
  expect_backward_refused({"x", "nullptr", rule}, [](auto& a) { a.x = nullptr; });
  expect_backward_refused({"dy", "nullptr", rule}, [](auto& a) { a.dy = nullptr; });
  expect_backward_refused({"dx", "nullptr", rule}, [](auto& a) { a.dx = nullptr; });
  expect_backward_refused({"d_router", "nullptr", rule}, [](auto& a) { a.d_router = nullptr; });
  expect_backward_refused({"weights.down", "nullptr", rule},
                          [](auto& a) { a.weights.down.base = nullptr; });
  expect_backward_refused({"grads.gate", "nullptr", rule},
                          [](auto& a) { a.grads.gate.base = nullptr; });
  expect_backward_refused({"grads.shared_up", "nullptr", rule},
                          [](auto& a) { a.grads.shared_up.base = nullptr; });
  expect_backward_refused({"grads.shared_output_gate", "nullptr", rule},
                          [](auto& a) { a.grads.shared_output_gate = nullptr; });
  const Context empty = Context::create(rig_.workspace(0)).value();
  expect_backward_refused({"context", "empty", "needs a forward"},
                          [&](auto& a) { a.context = &empty; });
}

TEST_F(Arguments, Recompute) {
  RecomputeArgs args;
  args.context = contexts_.data();
  args.weights = data_.rank_weights(0);
  auto report = mok::recompute(rig_.workspace(0), args);
  ASSERT_FALSE(report);
  expect_refusal(report.error(), {"x", "nullptr", "must point to memory"});
  Context empty = Context::create(rig_.workspace(0)).value();
  args.context = &empty;
  report = mok::recompute(rig_.workspace(0), args);
  ASSERT_FALSE(report);
  expect_refusal(report.error(), {"context", "empty", "needs a forward"});
  LayerSpec spec = one_rank();
  spec.options.save = Save::kNone;
  LayerRig none(spec);
  report = mok::recompute(none.workspace(0), args);
  ASSERT_FALSE(report);
  expect_refusal(report.error(), {"save", "none", "save = all"});
}

// A rank without tokens needs no token arrays, one without experts no expert weights.
TEST(ArgumentsNotNeeded, MayBeNull) {
  LayerSpec spec;
  spec.tokens = {0, 4};
  spec.experts = 1;
  spec.topk = 1;
  spec.shared = 0;
  const LayerData data(spec);
  const LayerResult expected = run_layer(data);
  LayerRig rig(spec);
  LayerResult result(data);
  std::vector<Context> contexts = rig.contexts();
  on_ranks(2, [&](int rank) {
    Context& context = contexts[static_cast<std::size_t>(rank)];
    ForwardArgs f = forward_args(data, result, rank, &context);
    BackwardArgs b = backward_args(data, result, rank, &context);
    if (rank == 0) {
      f.x = nullptr;
      f.y = nullptr;
      f.routing = {};
      b.x = b.dy = nullptr;
      b.dx = nullptr;
      b.d_router = nullptr;
    } else {
      f.weights = b.weights = {};
      b.grads = {};
    }
    ASSERT_TRUE(mok::forward(rig.workspace(rank), f));
    ASSERT_TRUE(mok::backward(rig.workspace(rank), b));
  });
  EXPECT_EQ(first_difference(expected, result, Shared::kSkip), "");
}

TEST(WorkspaceArguments, UnknownEngine) {
  LayerSpec spec = one_rank();
  spec.options.engine = "sse9";
  const auto made = Workspace::create(World::local(1).value()[0], spec.shape(), spec.options);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code(), Code::kBadArgument);
  EXPECT_EQ(made.error().value(), "sse9");
}

TEST(WorkspaceArguments, NumberOfRanks) {
  expect_refusal(World::local(0).error(), {"ranks", "0", "1 .. 65535"});
  expect_refusal(World::local(65536).error(), {"ranks", "65536", "1 .. 65535"});
}

}  // namespace
}  // namespace mok::testing
