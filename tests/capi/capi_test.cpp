// capi_test.cpp: the C ABI gives the bits and counts of the C++ API.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <vector>

#include "capi_data.hpp"

extern "C" mok_status mok_test_run_from_c(std::uint16_t* y, float* d_router);

namespace mok::testing {
namespace {

// What callers have compiled in (64-bit machines). A change here breaks them.
static_assert(sizeof(mok_status) == 528);
static_assert(sizeof(mok_layer_shape) == 64);
static_assert(sizeof(mok_options) == 72);
static_assert(sizeof(mok_expert_matrix) == 32 && sizeof(mok_grad_matrix) == 32);
static_assert(sizeof(mok_weights) == 208 && sizeof(mok_weight_grads) == 216);
static_assert(sizeof(mok_routing) == 24);
static_assert(sizeof(mok_forward_args) == 72);
static_assert(sizeof(mok_backward_args) == 64);
static_assert(sizeof(mok_recompute_args) == 32);
static_assert(sizeof(mok_call_report) == 168);

LayerShape cpp_shape() {
  LayerShape shape;
  shape.max_tokens = kTokens + 3;
  shape.hidden = kHidden;
  shape.intermediate = kWidth;
  shape.shared_intermediate = kShared;
  shape.experts = kExperts;
  shape.topk = kTopk;
  shape.output_gate = true;
  shape.swiglu_limit = 0.75F;
  return shape;
}

Options cpp_options() {
  Options options;
  options.dispatch = Dispatch::kPush;
  options.combine = Combine::kPull;
  options.dy_dispatch = Dispatch::kPush;
  options.dx_combine = Combine::kPush;
  options.ring_rows = smallest_ring_rows() + 64;
  options.saved_rows = 64;
  options.workers = 1;
  options.engine = "scalar";
  options.join_deadline_ms = 60'000;
  options.progress_deadline_ms = 20'000;
  return options;
}

template <class T>
std::vector<std::uint8_t> bytes(const std::vector<T>& values) {
  std::vector<std::uint8_t> raw(values.size() * sizeof(T));
  std::memcpy(raw.data(), values.data(), raw.size());
  return raw;
}

void expect_equal(const Outputs& c, const Outputs& cpp) {
  EXPECT_EQ(c.y, cpp.y);
  EXPECT_EQ(c.dx, cpp.dx);
  EXPECT_EQ(c.gate, cpp.gate);
  EXPECT_EQ(c.up, cpp.up);
  EXPECT_EQ(c.down, cpp.down);
  EXPECT_EQ(bytes(c.shared_gate), bytes(cpp.shared_gate));
  EXPECT_EQ(bytes(c.shared_up), bytes(cpp.shared_up));
  EXPECT_EQ(bytes(c.shared_down), bytes(cpp.shared_down));
  EXPECT_EQ(bytes(c.d_router), bytes(cpp.d_router));
  EXPECT_EQ(bytes(c.output_gate), bytes(cpp.output_gate));
  for (const float value : c.d_router) {
    ASSERT_FALSE(std::isnan(value));
  }
  ASSERT_EQ(c.reports.size(), cpp.reports.size());
  for (std::size_t i = 0; i < c.reports.size(); ++i) {
    const CallReport& a = c.reports[i];
    const CallReport& b = cpp.reports[i];
    EXPECT_EQ(a.epoch, b.epoch);
    EXPECT_EQ(a.rows, b.rows);
    EXPECT_EQ(a.padded_rows, b.padded_rows);
    EXPECT_EQ(a.phases, b.phases);
    EXPECT_EQ(a.ring_turns, b.ring_turns);
    EXPECT_EQ(a.replayed_rows, b.replayed_rows);
    using Member = TransferCounts CallReport::*;
    for (const Member member : {&CallReport::dispatch, &CallReport::combine,
                                &CallReport::dy_dispatch, &CallReport::dx_combine}) {
      EXPECT_EQ((a.*member).bytes, (b.*member).bytes);
      EXPECT_EQ((a.*member).remote_reads, (b.*member).remote_reads);
      EXPECT_EQ((a.*member).remote_writes, (b.*member).remote_writes);
    }
  }
}

const Bf16* bf16(const std::vector<std::uint16_t>& values) {
  return reinterpret_cast<const Bf16*>(values.data());
}
Bf16* bf16(std::vector<std::uint16_t>& values) {
  return reinterpret_cast<Bf16*>(values.data());
}

void run_cpp(Workspace& workspace, const Inputs& in, Outputs& out) {
  const auto done = [&out](const Result<CallReport>& report) {
    ASSERT_TRUE(report.has_value()) << report.error().message();
    out.reports.push_back(*report);
  };
  constexpr std::int64_t kMatrix = kWidth * kHidden;
  Result<Context> context = Context::create(workspace);
  ASSERT_TRUE(context.has_value());
  Weights weights;
  weights.gate = {bf16(in.gate), kMatrix, kHidden, nullptr};
  weights.up = {bf16(in.up), kMatrix, kHidden, nullptr};
  weights.down = {bf16(in.down), kMatrix, kWidth, nullptr};
  weights.shared_gate = {bf16(in.shared_gate), 0, kHidden, nullptr};
  weights.shared_up = {bf16(in.shared_up), 0, kHidden, nullptr};
  weights.shared_down = {bf16(in.shared_down), 0, kShared, nullptr};
  weights.shared_output_gate = bf16(in.output_gate);
  done(forward(workspace, {in.tokens,
                           bf16(in.x),
                           {in.ids.data(), nullptr, in.weights.data()},
                           weights,
                           bf16(out.y),
                           &*context}));
  release_saved(*context);
  done(recompute(workspace, {&*context, bf16(in.x), weights}));
  WeightGrads grads;
  grads.shared_kind = Grad::kFp32;
  grads.gate = {out.gate.data(), kMatrix, kHidden, nullptr};
  grads.up = {out.up.data(), kMatrix, kHidden, nullptr};
  grads.down = {out.down.data(), kMatrix, kWidth, nullptr};
  grads.shared_gate = {out.shared_gate.data(), 0, kHidden, nullptr};
  grads.shared_up = {out.shared_up.data(), 0, kHidden, nullptr};
  grads.shared_down = {out.shared_down.data(), 0, kShared, nullptr};
  grads.shared_output_gate = out.output_gate.data();
  done(backward(workspace, {&*context, bf16(in.x), bf16(in.dy), weights, bf16(out.dx),
                            out.d_router.data(), grads}));
}

TEST(CApiTest, GivesTheBitsAndCountsOfTheCppApi) {
  const std::vector<Inputs> in = inputs_of_all();
  std::vector<Outputs> c{Outputs(in[0]), Outputs(in[1])};
  std::vector<Outputs> cpp = c;

  const std::vector<CRank> ranks = make_c_ranks(c_options());
  Result<std::vector<World>> worlds = World::local(kRanks);
  ASSERT_TRUE(worlds.has_value());
  std::vector<Workspace> workspaces;
  for (const World& world : *worlds) {
    Result<Workspace> workspace = Workspace::create(world, cpp_shape(), cpp_options());
    ASSERT_TRUE(workspace.has_value()) << workspace.error().message();
    workspaces.push_back(std::move(*workspace));
  }
  on_all_ranks([&](int rank) {
    const auto r = static_cast<std::size_t>(rank);
    run_c(ranks[r], in[r], c[r]);
    run_cpp(workspaces[r], in[r], cpp[r]);
  });
  for (std::size_t rank = 0; rank < kRanks; ++rank) {
    SCOPED_TRACE(rank);
    expect_equal(c[rank], cpp[rank]);
  }
}

TEST(CApiTest, RunsFromC) {
  std::array<std::uint16_t, 24> y{};
  std::array<float, 3> d_router{};
  const mok_status status = mok_test_run_from_c(y.data(), d_router.data());
  ASSERT_EQ(status.code, MOK_OK) << status.message;
  EXPECT_STREQ(status.message, "ok");
  // 16 * silu(8) * 8 = 1023.66 -> bf16 1024; half of it at weight 0.5; nothing at id -1.
  EXPECT_EQ(y.front(), to_bf16(1024.0F).bits);
  EXPECT_EQ(y[8], to_bf16(512.0F).bits);
  EXPECT_EQ(y.back(), 0);
  // sum(dh * h) with dh = H and h not rounded, whatever the router's weight.
  EXPECT_NEAR(d_router[0], 16 * 8 * 63.97853, 0.1);
  EXPECT_EQ(d_router[1], d_router[0]);
  EXPECT_EQ(d_router[2], 0.0F);
}

TEST(CApiTest, TheInitialOptionsAreTheDefaults) {
  const mok_options c = MOK_OPTIONS_INIT;
  const Options cpp;
  EXPECT_EQ(c.dispatch, static_cast<int>(cpp.dispatch));
  EXPECT_EQ(c.combine, static_cast<int>(cpp.combine));
  EXPECT_EQ(c.dy_dispatch, static_cast<int>(cpp.dy_dispatch));
  EXPECT_EQ(c.dx_combine, static_cast<int>(cpp.dx_combine));
  EXPECT_EQ(c.ring_rows, cpp.ring_rows);
  EXPECT_EQ(c.saved_rows, cpp.saved_rows);
  EXPECT_EQ(c.save, static_cast<int>(cpp.save));
  EXPECT_EQ(c.workers, cpp.workers);
  EXPECT_EQ(c.engine, nullptr);  // null and "auto" are the same
  EXPECT_EQ(cpp.engine, "auto");
  EXPECT_EQ(c.join_deadline_ms, cpp.join_deadline_ms);
  EXPECT_EQ(c.progress_deadline_ms, cpp.progress_deadline_ms);
}

TEST(CApiTest, BytesAreThoseOfTheFormula) {
  const mok_layer_shape shape = c_shape();
  const mok_options options = c_options();
  std::uint64_t workspace = 0;
  std::uint64_t context = 0;
  expect_code(MOK_OK, mok_workspace_bytes(&shape, &options, kRanks, &workspace, &context));
  const Result<MemoryFormula> formula = memory_formula(cpp_shape(), cpp_options(), kRanks);
  ASSERT_TRUE(formula.has_value());
  EXPECT_EQ(workspace, formula->workspace_bytes);
  EXPECT_EQ(context, formula->context_bytes);
  expect_code(MOK_OK, mok_workspace_bytes(&shape, nullptr, kRanks, nullptr, nullptr));
}

TEST(CApiTest, VersionIsThreeNumbers) {
  int numbers[3] = {-1, -1, -1};
  EXPECT_EQ(std::sscanf(mok_version(), "%d.%d.%d", numbers, numbers + 1, numbers + 2), 3);
}

}  // namespace
}  // namespace mok::testing
