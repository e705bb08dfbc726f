// layer_rig.cpp: makes workspaces, poisons memory, runs calls on all ranks.
#include "support/layer_rig.hpp"

#include <cstring>
#include <thread>

namespace mok::testing {

namespace {

constexpr int kPoison = 0xff;  // NaN in bf16 and fp32

std::size_t index(int rank) {
  return static_cast<std::size_t>(rank);
}

Reports empty_reports(int num_ranks) {
  return Reports(index(num_ranks), CallReport{});
}

std::vector<CallReport> values(const Reports& reports) {
  std::vector<CallReport> out;
  for (const Result<CallReport>& report : reports) {
    out.push_back(report ? *report : CallReport{});
  }
  return out;
}

}  // namespace

void on_ranks(int num_ranks, const std::function<void(int)>& f) {
  std::vector<std::jthread> threads;
  for (int rank = 1; rank < num_ranks; ++rank) {
    threads.emplace_back([&f, rank] { f(rank); });
  }
  f(0);
}

LayerRig::LayerRig(const LayerSpec& spec)
    : LayerRig(spec, World::local(spec.num_ranks()).value()) {}

LayerRig::LayerRig(const LayerSpec& spec, std::vector<World> worlds)
    : spec_(spec), worlds_(std::move(worlds)) {
  for (const World& world : worlds_) {
    Result<Workspace> made =
        make_workspace(world, spec.shape(), spec.options, spec.geo, spec.first_epoch);
    EXPECT_TRUE(made) << made.error().message();
    workspaces_.push_back(std::move(made.value()));
  }
}

std::vector<Context> LayerRig::contexts() const {
  std::vector<Context> made;
  for (const Workspace& workspace : workspaces_) {
    made.push_back(Context::create(workspace).value());
  }
  return made;
}

void LayerRig::poison() {
  for (Workspace& workspace : workspaces_) {
    Workspace::Impl& ws = workspace.impl();
    const ArenaLayout& at = ws.plan.layout.arena;
    std::memset(ws.arena() + at.counts, kPoison, at.bytes - at.counts);
    std::memset(ws.local.data(), kPoison, ws.local.bytes());
  }
}
void LayerRig::poison(std::vector<Context>& contexts) {
  for (Context& context : contexts) {
    Context::Impl& impl = context.impl();
    std::memset(impl.kept.data(), kPoison, impl.kept.bytes());
    if (impl.saved.data() != nullptr) {
      std::memset(impl.saved.data(), kPoison, impl.saved.bytes());
    }
  }
}

Reports LayerRig::forward(const LayerData& data, LayerResult& result,
                          std::vector<Context>* contexts) {
  poison();
  if (contexts != nullptr) {
    poison(*contexts);
  }
  Reports reports = empty_reports(num_ranks());
  on_ranks(num_ranks(), [&](int rank) {
    Context* context = contexts != nullptr ? &(*contexts)[index(rank)] : nullptr;
    reports[index(rank)] = mok::forward(workspace(rank), forward_args(data, result, rank, context));
  });
  result.forward = values(reports);
  return reports;
}

Reports LayerRig::backward(const LayerData& data, LayerResult& result,
                           const std::vector<Context>& contexts) {
  poison();
  Reports reports = empty_reports(num_ranks());
  on_ranks(num_ranks(), [&](int rank) {
    reports[index(rank)] =
        mok::backward(workspace(rank), backward_args(data, result, rank, &contexts[index(rank)]));
  });
  result.backward = values(reports);
  return reports;
}

Reports LayerRig::recompute(const LayerData& data, std::vector<Context>& contexts) {
  poison();
  Reports reports = empty_reports(num_ranks());
  on_ranks(num_ranks(), [&](int rank) {
    RecomputeArgs args;
    args.context = &contexts[index(rank)];
    args.x = data.x.data() + data.spec.first_token(rank) * data.spec.hidden;
    args.weights = data.rank_weights(rank);
    reports[index(rank)] = mok::recompute(workspace(rank), args);
  });
  return reports;
}

ForwardArgs forward_args(const LayerData& data, LayerResult& result, int rank, Context* context) {
  const LayerSpec& spec = data.spec;
  const std::int64_t token0 = spec.first_token(rank);
  ForwardArgs args;
  args.tokens = spec.tokens[index(rank)];
  args.x = data.x.data() + token0 * spec.hidden;
  args.routing.ids = data.ids.data() + token0 * spec.topk;
  args.routing.weights = data.weights.data() + token0 * spec.topk;
  args.weights = data.rank_weights(rank);
  args.y = result.y.data() + token0 * spec.hidden;
  args.context = context;
  return args;
}

BackwardArgs backward_args(const LayerData& data, LayerResult& result, int rank,
                           const Context* context) {
  const LayerSpec& spec = data.spec;
  const std::int64_t token0 = spec.first_token(rank);
  const std::size_t first =
      expert_begin(static_cast<std::uint32_t>(spec.experts),
                   static_cast<std::uint32_t>(spec.num_ranks()), static_cast<std::uint32_t>(rank)) *
      data.expert_elements();
  const auto stride = static_cast<std::int64_t>(data.expert_elements());
  BackwardArgs args;
  args.context = context;
  args.x = data.x.data() + token0 * spec.hidden;
  args.dy = data.dy.data() + token0 * spec.hidden;
  args.weights = data.rank_weights(rank);
  args.dx = result.dx.data() + token0 * spec.hidden;
  args.d_router = result.d_router.data() + token0 * spec.topk;
  args.grads.kind = spec.grad;
  args.grads.shared_kind = spec.shared_grad;
  args.grads.gate = {result.gate.at(first), stride, spec.hidden, nullptr};
  args.grads.up = {result.up.at(first), stride, spec.hidden, nullptr};
  args.grads.down = {result.down.at(first), stride, spec.intermediate, nullptr};
  if (spec.shared > 0) {
    args.grads.shared_gate = {result.shared_gate[index(rank)].at(0), 0, spec.hidden, nullptr};
    args.grads.shared_up = {result.shared_up[index(rank)].at(0), 0, spec.hidden, nullptr};
    args.grads.shared_down = {result.shared_down[index(rank)].at(0), 0, spec.shared, nullptr};
    args.grads.shared_output_gate =
        spec.output_gate ? result.shared_output_gate[index(rank)].at(0) : nullptr;
  }
  return args;
}

std::string failures(const Reports& reports) {
  std::string text;
  for (std::size_t rank = 0; rank < reports.size(); ++rank) {
    if (!reports[rank]) {
      text += "rank " + std::to_string(rank) + ": " + reports[rank].error().message() + "\n";
    }
  }
  return text;
}

LayerResult run_layer(const LayerData& data) {
  LayerRig rig(data.spec);
  return run_layer(rig, data);
}

LayerResult run_layer(LayerRig& rig, const LayerData& data) {
  LayerResult result(data);
  std::vector<Context> contexts = rig.contexts();
  EXPECT_EQ(failures(rig.forward(data, result, &contexts)), "") << data.spec;
  EXPECT_EQ(failures(rig.backward(data, result, contexts)), "") << data.spec;
  return result;
}

}  // namespace mok::testing
