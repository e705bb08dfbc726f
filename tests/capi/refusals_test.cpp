// refusals_test.cpp: what the C ABI refuses, and with which words.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "capi_data.hpp"

namespace mok::testing {
namespace {

TEST(CApiRefusalsTest, ShapeAndOptionsAreRefusedWithAName) {
  struct Case {
    std::function<void(mok_layer_shape&, mok_options&)> spoil;
    const char* message;
  };
  const Case cases[] = {
      {[](auto& shape, auto&) { shape.struct_size = 0; },
       "bad_argument: shape.struct_size = 0: must be sizeof(mok_layer_shape) = 64"},
      {[](auto& shape, auto&) { shape.struct_size += 8; }, "shape.struct_size = 72"},
      {[](auto&, auto& options) { options.struct_size = 4; }, "options.struct_size = 4"},
      {[](auto& shape, auto&) { shape.output_gate = 2; }, "output_gate = 2: must be 0 or 1"},
      {[](auto& shape, auto&) { shape.topk = 6; }, "topk = 6: must be at most experts = 5"},
      {[](auto& shape, auto&) { shape.swiglu_limit = NAN; }, "swiglu_limit = nan"},
      {[](auto& shape, auto&) { shape.swiglu_limit = -1.0F; }, "swiglu_limit = -1"},
      {[](auto&, auto& options) { options.dispatch = 2; }, "dispatch = 2: must be MOK_DISPATCH_"},
      {[](auto&, auto& options) { options.combine = 3; }, "combine = 3: must be MOK_COMBINE_"},
      {[](auto&, auto& options) { options.dy_dispatch = -1; }, "dy_dispatch = -1"},
      {[](auto&, auto& options) { options.dx_combine = 99; }, "dx_combine = 99"},
      {[](auto&, auto& options) { options.save = 2; }, "save = 2: must be MOK_SAVE_"},
      {[](auto&, auto& options) { options.saved_rows = 65; }, "saved_rows = 65"},
  };
  mok_world* handles[1];
  expect_code(MOK_OK, mok_world_create_local(1, handles));
  const Owned<mok_world> world(handles[0]);
  for (const Case& one : cases) {
    mok_layer_shape shape = c_shape();
    mok_options options = c_options();
    one.spoil(shape, options);
    std::uint64_t bytes = 77;
    expect_code(MOK_BAD_ARGUMENT, mok_workspace_bytes(&shape, &options, 1, &bytes, nullptr),
                one.message);
    EXPECT_EQ(bytes, 77U);
    mok_workspace* workspace = nullptr;
    expect_code(MOK_BAD_ARGUMENT, mok_workspace_create(world.get(), &shape, &options, &workspace),
                one.message);
    EXPECT_EQ(workspace, nullptr);
  }
}

TEST(CApiRefusalsTest, LongMessagesAreCut) {
  const mok_layer_shape shape = c_shape();
  mok_options options = c_options();
  const std::string engine(2000, 'x');
  options.engine = engine.c_str();
  mok_world* handles[1];
  expect_code(MOK_OK, mok_world_create_local(1, handles));
  const Owned<mok_world> world(handles[0]);
  mok_workspace* workspace = nullptr;
  const mok_status status = mok_workspace_create(world.get(), &shape, &options, &workspace);
  expect_code(MOK_BAD_ARGUMENT, status, "xxxx");
  EXPECT_EQ(std::strlen(status.message), sizeof(status.message) - 1);
}

TEST(CApiRefusalsTest, NullPointersAreRefused) {
  const mok_layer_shape shape = c_shape();
  mok_world* handles[1];
  expect_code(MOK_BAD_ARGUMENT, mok_world_create_local(1, nullptr), "worlds = NULL");
  expect_code(MOK_BAD_ARGUMENT, mok_world_create_local(0, handles), "ranks = 0");
  expect_code(MOK_OK, mok_world_create_local(1, handles));
  const Owned<mok_world> world(handles[0]);
  mok_workspace* workspace = nullptr;
  mok_context* context = nullptr;
  expect_code(MOK_BAD_ARGUMENT, mok_workspace_create(nullptr, &shape, nullptr, &workspace),
              "world = NULL");
  expect_code(MOK_BAD_ARGUMENT, mok_workspace_create(world.get(), nullptr, nullptr, &workspace),
              "shape = NULL");
  expect_code(MOK_BAD_ARGUMENT, mok_workspace_create(world.get(), &shape, nullptr, nullptr),
              "workspace = NULL");
  expect_code(MOK_BAD_ARGUMENT, mok_context_create(nullptr, &context), "workspace = NULL");
  expect_code(MOK_BAD_ARGUMENT, mok_forward(nullptr, nullptr, nullptr), "workspace = NULL");
  mok_world_destroy(nullptr);
  mok_workspace_destroy(nullptr);
  mok_context_destroy(nullptr);
  mok_context_release_saved(nullptr);
}

TEST(CApiRefusalsTest, CallsAreRefusedWithoutSideEffect) {
  const std::vector<Inputs> in = inputs_of_all();
  std::vector<Outputs> out{Outputs(in[0]), Outputs(in[1])};
  const std::vector<CRank> ranks = make_c_ranks(c_options());
  mok_workspace* workspace = ranks[0].workspace.get();
  mok_context* context = ranks[0].context.get();
  const mok_weights weights = c_weights(in[0]);
  const mok_weight_grads grads = c_grads(out[0]);
  auto report = sized<mok_call_report>();

  const auto forward_with = [&](const std::function<void(mok_forward_args&)>& spoil) {
    mok_forward_args args = c_forward(in[0], weights, out[0], context);
    spoil(args);
    return mok_forward(workspace, &args, &report);
  };
  expect_code(MOK_BAD_ARGUMENT, mok_forward(workspace, nullptr, &report), "args = NULL");
  expect_code(MOK_BAD_ARGUMENT, forward_with([](auto& a) { a.struct_size = 1; }),
              "args.struct_size = 1: must be sizeof(mok_forward_args) = 72");
  expect_code(MOK_BAD_ARGUMENT, forward_with([](auto& a) { a.weights = nullptr; }),
              "weights = NULL");
  expect_code(MOK_BAD_ARGUMENT, forward_with([](auto& a) { a.tokens = -1; }), "tokens = -1");
  expect_code(MOK_BAD_ARGUMENT, forward_with([](auto& a) { a.x = nullptr; }), "x = nullptr");
  std::vector<std::int32_t> ids = in[0].ids;
  ids[5] = kExperts;
  expect_code(MOK_BAD_ARGUMENT, forward_with([&](auto& a) { a.routing.ids = ids.data(); }),
              "ids[2, 1] = 5");
  mok_weights spoilt_weights = weights;
  spoilt_weights.struct_size = 8;
  expect_code(MOK_BAD_ARGUMENT, forward_with([&](auto& a) { a.weights = &spoilt_weights; }),
              "weights.struct_size = 8");
  spoilt_weights = weights;
  spoilt_weights.down.row_stride = 1;
  expect_code(MOK_BAD_ARGUMENT, forward_with([&](auto& a) { a.weights = &spoilt_weights; }),
              "weights.down.row_stride = 1");
  report.struct_size = 3;
  expect_code(MOK_BAD_ARGUMENT, forward_with([](auto&) {}), "report.struct_size = 3");
  report.struct_size = sizeof(report);

  const auto backward_with = [&](const std::function<void(mok_backward_args&)>& spoil) {
    mok_backward_args args = c_backward(in[0], weights, grads, out[0], context);
    spoil(args);
    return mok_backward(workspace, &args, &report);
  };
  expect_code(MOK_BAD_ARGUMENT, backward_with([](auto&) {}), "context = empty");
  expect_code(MOK_BAD_ARGUMENT, backward_with([](auto& a) { a.context = nullptr; }), "context");
  expect_code(MOK_BAD_ARGUMENT, backward_with([](auto& a) { a.struct_size = 9; }),
              "args.struct_size = 9");
  expect_code(MOK_BAD_ARGUMENT, backward_with([](auto& a) { a.grads = nullptr; }), "grads = NULL");
  mok_weight_grads spoilt_grads = grads;
  spoilt_grads.kind = 3;
  expect_code(MOK_BAD_ARGUMENT, backward_with([&](auto& a) { a.grads = &spoilt_grads; }),
              "grads.kind = 3");
  spoilt_grads = grads;
  spoilt_grads.shared_kind = -1;
  expect_code(MOK_BAD_ARGUMENT, backward_with([&](auto& a) { a.grads = &spoilt_grads; }),
              "grads.shared_kind = -1");
  auto recompute_args = sized<mok_recompute_args>();
  recompute_args.struct_size = 5;
  expect_code(MOK_BAD_ARGUMENT, mok_recompute(workspace, &recompute_args, nullptr),
              "args.struct_size = 5");

  // Nothing has happened yet: the first call of the group is call 1.
  EXPECT_EQ(out[0].y, Outputs(in[0]).y);
  on_all_ranks([&](int rank) {
    const auto r = static_cast<std::size_t>(rank);
    run_c(ranks[r], in[r], out[r]);
  });
  EXPECT_EQ(out[0].reports.front().epoch, 1U);
}

TEST(CApiRefusalsTest, AMissingRankIsATypedTimeOutAndPoisons) {
  const Inputs in(0);
  Outputs out(in);
  mok_options options = c_options();
  options.join_deadline_ms = 50;
  const std::vector<CRank> ranks = make_c_ranks(options, 1);
  const mok_weights weights = c_weights(in);
  const mok_forward_args args = c_forward(in, weights, out, nullptr);
  const mok_status late = mok_forward(ranks[0].workspace.get(), &args, nullptr);
  expect_code(MOK_TIMEOUT, late, "timeout: rank 1 at ");
  EXPECT_EQ(late.rank, 1);
  EXPECT_EQ(late.epoch, 1U);
  expect_code(MOK_POISONED, mok_forward(ranks[0].workspace.get(), &args, nullptr), "poisoned: ");
}

}  // namespace
}  // namespace mok::testing
