// capi_data.hpp: a small layer on two ranks, in the structs of the C ABI.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "mok.h"
#include "mok/layer.hpp"
#include "support/random.hpp"

namespace mok::testing {

inline constexpr std::uint64_t kSeed = 20;
inline constexpr int kRanks = 2;
inline constexpr std::int64_t kTokens = 37;
inline constexpr std::int64_t kHidden = 24;
inline constexpr std::int64_t kWidth = 16;
inline constexpr std::int64_t kShared = 8;
inline constexpr std::int64_t kExperts = 5;
inline constexpr std::int64_t kTopk = 2;
inline constexpr std::uint16_t kNan = 0xffff;

struct DestroyHandle {
  void operator()(mok_world* handle) const { mok_world_destroy(handle); }
  void operator()(mok_workspace* handle) const { mok_workspace_destroy(handle); }
  void operator()(mok_context* handle) const { mok_context_destroy(handle); }
};
template <class Handle>
using Owned = std::unique_ptr<Handle, DestroyHandle>;

template <class Struct>
Struct sized() {
  Struct zeros{};
  zeros.struct_size = sizeof(Struct);
  return zeros;
}

inline mok_layer_shape c_shape() {
  auto shape = sized<mok_layer_shape>();
  shape.max_tokens = kTokens + 3;
  shape.hidden = kHidden;
  shape.intermediate = kWidth;
  shape.shared_intermediate = kShared;
  shape.experts = kExperts;
  shape.topk = kTopk;
  shape.output_gate = 1;
  shape.swiglu_limit = 0.75F;
  return shape;
}

// Every value differs from its default.
inline mok_options c_options() {
  mok_options options = MOK_OPTIONS_INIT;
  options.dispatch = MOK_DISPATCH_PUSH;
  options.combine = MOK_COMBINE_PULL;
  options.dy_dispatch = MOK_DISPATCH_PUSH;
  options.dx_combine = MOK_COMBINE_PUSH;
  options.ring_rows = smallest_ring_rows() + 64;
  options.saved_rows = 64;
  options.workers = 1;
  options.engine = "scalar";
  options.join_deadline_ms = 60'000;
  options.progress_deadline_ms = 20'000;
  return options;
}

inline std::vector<std::uint16_t> draw(Random& random, std::int64_t count, float scale) {
  std::vector<std::uint16_t> values;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto step = static_cast<float>(random.below(257)) - 128.0F;
    values.push_back(to_bf16(scale * step / 128.0F).bits);
  }
  return values;
}

// Inputs of one rank; experts' up matrices are given as a table, the others by stride.
struct Inputs {
  std::vector<std::uint16_t> x, dy, gate, up, down, shared_gate, shared_up, shared_down,
      output_gate;
  std::vector<const std::uint16_t*> up_table;
  std::vector<std::int32_t> ids;
  std::vector<float> weights;
  std::int64_t tokens = 0;
  std::int64_t local = 0;

  Inputs(Inputs&&) = default;  // no copies: up_table points into up
  explicit Inputs(int rank)
      : tokens(kTokens - 8 * rank), local(rank == 0 ? (kExperts + 1) / 2 : kExperts / 2) {
    Random random(kSeed + static_cast<std::uint64_t>(rank));
    x = draw(random, tokens * kHidden, 1.0F);
    dy = draw(random, tokens * kHidden, 1.0F);
    gate = draw(random, local * kWidth * kHidden, 0.5F);
    up = draw(random, local * kWidth * kHidden, 0.5F);
    down = draw(random, local * kWidth * kHidden, 0.5F);
    for (std::int64_t expert = 0; expert < local; ++expert) {
      up_table.push_back(up.data() + expert * kWidth * kHidden);
    }
    Random same_on_all(kSeed + 100);
    shared_gate = draw(same_on_all, kShared * kHidden, 0.5F);
    shared_up = draw(same_on_all, kShared * kHidden, 0.5F);
    shared_down = draw(same_on_all, kShared * kHidden, 0.5F);
    output_gate = draw(same_on_all, kHidden, 0.5F);
    for (std::int64_t slot = 0; slot < tokens * kTopk; ++slot) {
      ids.push_back(static_cast<std::int32_t>(random.below(kExperts + 1)) - 1);
      weights.push_back(static_cast<float>(random.below(100)) / 64.0F - 0.25F);
    }
  }
};

inline std::vector<Inputs> inputs_of_all() {
  std::vector<Inputs> ranks;
  for (int rank = 0; rank < kRanks; ++rank) {
    ranks.emplace_back(rank);
  }
  return ranks;
}

// Outputs of one rank, NaN before the call.
struct Outputs {
  std::vector<std::uint16_t> y, dx, gate, up, down, shared_gate, shared_up, shared_down;
  std::vector<float> d_router, output_gate;  // bits are compared below
  std::vector<CallReport> reports;

  explicit Outputs(const Inputs& in)
      : y(in.x.size(), kNan),
        dx(in.x.size(), kNan),
        gate(in.gate.size(), kNan),
        up(in.gate.size(), kNan),
        down(in.gate.size(), kNan),
        // kFp32: two halves an element.
        shared_gate(2 * in.shared_gate.size(), kNan),
        shared_up(2 * in.shared_gate.size(), kNan),
        shared_down(2 * in.shared_gate.size(), kNan),
        d_router(in.weights.size(), NAN),
        output_gate(in.output_gate.size(), NAN) {}
};

inline mok_expert_matrix matrix(const std::vector<std::uint16_t>& from, std::int64_t cols) {
  return {from.data(), kWidth * kHidden, cols, nullptr};
}
inline mok_grad_matrix matrix(std::vector<std::uint16_t>& to, std::int64_t cols) {
  return {to.data(), kWidth * kHidden, cols, nullptr};
}

inline mok_weights c_weights(const Inputs& in) {
  auto weights = sized<mok_weights>();
  weights.gate = matrix(in.gate, kHidden);
  weights.up = {nullptr, 0, kHidden, in.up_table.data()};
  weights.down = matrix(in.down, kWidth);
  weights.shared_gate = matrix(in.shared_gate, kHidden);
  weights.shared_up = matrix(in.shared_up, kHidden);
  weights.shared_down = matrix(in.shared_down, kShared);
  weights.shared_output_gate = in.output_gate.data();
  return weights;
}

inline mok_weight_grads c_grads(Outputs& out) {
  auto grads = sized<mok_weight_grads>();
  grads.kind = MOK_GRAD_BF16;
  grads.shared_kind = MOK_GRAD_FP32;
  grads.gate = matrix(out.gate, kHidden);
  grads.up = matrix(out.up, kHidden);
  grads.down = matrix(out.down, kWidth);
  grads.shared_gate = matrix(out.shared_gate, kHidden);
  grads.shared_up = matrix(out.shared_up, kHidden);
  grads.shared_down = matrix(out.shared_down, kShared);
  grads.shared_output_gate = out.output_gate.data();
  return grads;
}

inline mok_forward_args c_forward(const Inputs& in, const mok_weights& weights, Outputs& out,
                                  mok_context* context) {
  auto args = sized<mok_forward_args>();
  args.tokens = in.tokens;
  args.x = in.x.data();
  args.routing.ids = in.ids.data();
  args.routing.weights = in.weights.data();
  args.weights = &weights;
  args.y = out.y.data();
  args.context = context;
  return args;
}

inline mok_backward_args c_backward(const Inputs& in, const mok_weights& weights,
                                    const mok_weight_grads& grads, Outputs& out,
                                    const mok_context* context) {
  auto args = sized<mok_backward_args>();
  args.context = context;
  args.x = in.x.data();
  args.dy = in.dy.data();
  args.weights = &weights;
  args.dx = out.dx.data();
  args.d_router = out.d_router.data();
  args.grads = &grads;
  return args;
}

// Fails the test, with its message, where a call does not end as it should.
inline void expect_code(std::int32_t code, const mok_status& status,
                        const char* message_part = "") {
  EXPECT_EQ(status.code, code) << status.message;
  EXPECT_NE(std::strstr(status.message, message_part), nullptr) << status.message;
}

struct CRank {
  Owned<mok_workspace> workspace;
  Owned<mok_context> context;
};

// Worlds die at the end of this function: workspaces need them no more.
inline std::vector<CRank> make_c_ranks(const mok_options& options, int num_workspaces = kRanks) {
  std::array<mok_world*, kRanks> handles{};
  expect_code(MOK_OK, mok_world_create_local(kRanks, handles.data()));
  std::vector<CRank> ranks;
  const mok_layer_shape shape = c_shape();
  for (int rank = 0; rank < kRanks; ++rank) {
    const Owned<mok_world> world(handles[static_cast<std::size_t>(rank)]);
    if (rank < num_workspaces) {
      mok_workspace* workspace = nullptr;
      expect_code(MOK_OK, mok_workspace_create(world.get(), &shape, &options, &workspace));
      mok_context* context = nullptr;
      expect_code(MOK_OK, mok_context_create(workspace, &context));
      ranks.push_back({Owned<mok_workspace>(workspace), Owned<mok_context>(context)});
    }
  }
  return ranks;
}

inline void on_all_ranks(const std::function<void(int)>& job) {
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&job, rank] { job(rank); });
  }
}

inline TransferCounts counts(const mok_transfer_counts& from) {
  return {from.bytes, from.remote_reads, from.remote_writes};
}
inline CallReport report_of(const mok_call_report& from) {
  CallReport to;
  to.epoch = from.epoch;
  to.rows = from.rows;
  to.padded_rows = from.padded_rows;
  to.phases = from.phases;
  to.ring_turns = from.ring_turns;
  to.replayed_rows = from.replayed_rows;
  to.dispatch = counts(from.dispatch);
  to.combine = counts(from.combine);
  to.dy_dispatch = counts(from.dy_dispatch);
  to.dx_combine = counts(from.dx_combine);
  return to;
}

inline void run_c(const CRank& rank, const Inputs& in, Outputs& out) {
  const auto done = [&out](const mok_status& status, const mok_call_report& report) {
    EXPECT_EQ(status.code, MOK_OK) << status.message;
    out.reports.push_back(report_of(report));
  };
  const mok_weights weights = c_weights(in);
  const mok_weight_grads grads = c_grads(out);
  auto report = sized<mok_call_report>();
  const mok_forward_args forward_args = c_forward(in, weights, out, rank.context.get());
  done(mok_forward(rank.workspace.get(), &forward_args, &report), report);
  mok_context_release_saved(rank.context.get());
  auto recompute_args = sized<mok_recompute_args>();
  recompute_args.context = rank.context.get();
  recompute_args.x = in.x.data();
  recompute_args.weights = &weights;
  done(mok_recompute(rank.workspace.get(), &recompute_args, &report), report);
  const mok_backward_args backward_args = c_backward(in, weights, grads, out, rank.context.get());
  done(mok_backward(rank.workspace.get(), &backward_args, &report), report);
}

}  // namespace mok::testing
