// one_layer.cpp: one training step of a mixture-of-experts layer over two ranks, a thread each.
#include <cstdio>
#include <cstdlib>
#include <mok/layer.hpp>
#include <random>
#include <thread>

constexpr int kTokens = 64, kHidden = 128, kWidth = 64, kExperts = 8, kTopk = 2, kRanks = 2;
constexpr int kMatrix = kWidth * kHidden, kMatrices = kExperts / kRanks * kMatrix;

template <class T>
T must(mok::Result<T> result) {
  if (result) return std::move(*result);
  std::fprintf(stderr, "%s\n", result.error().message().c_str());
  std::_Exit(mok::exit_status(result.error().code()));
}

void train_step(const mok::World& world) {
  std::mt19937 random(static_cast<unsigned>(world.rank()));
  const auto draw = [&random](std::size_t count, float scale) {
    std::vector<mok::Bf16> values(count);
    for (auto& value : values) value = mok::to_bf16(std::normal_distribution(0.F, scale)(random));
    return values;
  };
  const auto x = draw(kTokens * kHidden, 1), dy = draw(kTokens * kHidden, 1);
  const auto gate = draw(kMatrices, .1F), up = draw(kMatrices, .1F), down = draw(kMatrices, .1F);
  std::vector<int> ids(kTokens * kTopk);  // the experts of each token
  for (auto& id : ids) id = static_cast<int>(random() % kExperts);
  const std::vector<float> router(ids.size(), 1.F / kTopk);
  std::vector<mok::Bf16> y(x.size()), dx(x.size()), d_gate(kMatrices), d_up(d_gate), d_down(d_up);
  std::vector<float> d_router(ids.size());

  const mok::Routing routing{ids.data(), nullptr, router.data()};
  mok::Weights weights;
  weights.gate = {gate.data(), kMatrix, kHidden};
  weights.up = {up.data(), kMatrix, kHidden};
  weights.down = {down.data(), kMatrix, kWidth};
  mok::WeightGrads grads;
  grads.gate = {d_gate.data(), kMatrix, kHidden};
  grads.up = {d_up.data(), kMatrix, kHidden};
  grads.down = {d_down.data(), kMatrix, kWidth};

  const mok::LayerShape shape{kTokens, kHidden, kWidth, 0, kExperts, kTopk, false, {}};
  auto workspace = must(mok::Workspace::create(world, shape, {}));
  auto context = must(mok::Context::create(workspace));
  must(mok::forward(workspace, {kTokens, x.data(), routing, weights, y.data(), &context}));
  must(mok::backward(workspace,
                     {&context, x.data(), dy.data(), weights, dx.data(), d_router.data(), grads}));
  std::printf("rank %d: y[0] %g, dx[0] %g, d_router[0] %g, d_gate[0] %g\n", world.rank(),
              mok::to_float(y[0]), mok::to_float(dx[0]), d_router[0], mok::to_float(d_gate[0]));
}

int main() {
  const auto worlds = must(mok::World::local(kRanks));
  std::jthread other(train_step, worlds[1]);  // a call waits for the other ranks: a thread each
  train_step(worlds[0]);
}
