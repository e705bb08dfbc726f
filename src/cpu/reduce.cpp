// reduce.cpp: per-token work: the output gate's logit and gradient, and the final sums of y and dX.
#include <algorithm>

#include "cpu/engine/elementwise.hpp"
#include "cpu/swiglu.hpp"
#include "cpu/tiles.hpp"

namespace mok::cpu {

void shared_logit(const CallData& d, const Task& task) {
  const TokenRows tokens = token_rows(d, task.index);
  const std::uint32_t run = d.view.geo.partial_cols;
  float* scale = d.mine<float>(d.layout->local.shared_scale);
  for (std::uint32_t i = 0; i < tokens.count; ++i) {
    const Bf16* x = d.x + std::uint64_t{tokens.first + i} * d.view.hidden;
    float sum = 0.0F;
    for (std::uint32_t at = 0; at < d.view.hidden; at += run) {
      float products[kMaxRun];
      const std::uint32_t count = std::min(run, d.view.hidden - at);
      for (std::uint32_t j = 0; j < count; ++j) {
        products[j] = to_float(x[at + j]) * to_float(d.weights.shared_output_gate[at + j]);
      }
      const float part = tree_run(products, count, run);
      sum = at == 0 ? part : sum + part;
    }
    scale[tokens.first + i] = sigmoid(sum);
  }
}

// d_shared_output_gate[h] = sum over tokens of dz * x[h]: inside token blocks in order, then the blocks.
void shared_logit_grad(const CallData& d, const Task& task, const Worker& worker) {
  const std::uint32_t col0 = task.col * d.view.geo.tile_cols;
  const std::uint32_t cols = std::min<std::uint32_t>(d.view.geo.tile_cols, d.view.hidden - col0);
  const float* dz = d.mine<float>(d.layout->local.shared_dz);
  float sum[kMaxTileCols] = {};
  for (std::uint32_t block = 0; block < shared_blocks(d.view); ++block) {
    const TokenRows tokens = token_rows(d, block);
    float part[kMaxTileCols] = {};
    for (std::uint32_t i = 0; i < tokens.count; ++i) {
      const std::uint64_t token = tokens.first + i;
      axpy_bf16(dz[token], d.x + token * d.view.hidden + col0, part, cols);
    }
    for (std::uint32_t col = 0; col < cols; ++col) {
      sum[col] = block == 0 ? part[col] : sum[col] + part[col];
    }
    worker.show_life();
  }
  for (std::uint32_t col = 0; col < cols; ++col) {
    void* out = d.grads.shared_output_gate;
    switch (d.grads.shared_kind) {
      case Grad::kBf16: static_cast<Bf16*>(out)[col0 + col] = to_bf16(sum[col]); break;
      case Grad::kFp32: static_cast<float*>(out)[col0 + col] = sum[col]; break;
      case Grad::kMainGrad: static_cast<float*>(out)[col0 + col] += sum[col]; break;
    }
  }
}

// out = shared + sum over slots in slot order, fp32, one rounding. Forward: s * shared, w * y. Backward:
// shared dX, dz * output gate, dX rows (already weighted).
void reduce_stripe(const CallData& d, const Task& task, Worker& worker) {
  const std::uint64_t width = d.view.hidden;
  const std::uint32_t topk = d.view.routes.topk;
  const bool is_backward = d.view.kind == CallKind::kBackward;
  const bool gate = d.view.output_gate == Flagged::kYes;
  const std::uint32_t first = task.index * d.view.geo.token_stripe;
  const std::uint32_t last =
      std::min<std::uint32_t>(first + d.view.geo.token_stripe, d.view.tokens);
  const Bf16* landing = d.own<Bf16>(d.layout->arena.landing);
  const float* dw = d.own<float>(d.layout->arena.dw_landing);
  for (std::uint32_t token = first; token < last; ++token) {
    float* sum = worker.row;
    std::fill(sum, sum + width, 0.0F);
    if (d.view.shared_intermediate > 0) {
      const Bf16* shared = d.mine<Bf16>(d.layout->local.shared_out) + token * width;
      const bool scaled = gate && !is_backward;
      axpy_bf16(scaled ? d.mine<float>(d.layout->local.shared_scale)[token] : 1.0F, shared, sum,
                static_cast<std::int64_t>(width));
      if (gate && is_backward) {
        axpy_bf16(d.mine<float>(d.layout->local.shared_dz)[token], d.weights.shared_output_gate,
                  sum, static_cast<std::int64_t>(width));
      }
    }
    for (std::uint32_t i = 0; i < topk; ++i) {
      const std::uint64_t slot = std::uint64_t{token} * topk + i;
      const bool routed = d.ids[slot] >= 0;
      if (routed) {
        axpy_bf16(is_backward ? 1.0F : d.router[slot], landing + slot * width, sum,
                  static_cast<std::int64_t>(width));
      }
      if (is_backward) {
        d.d_router[slot] = routed ? dw[slot] : 0.0F;
      }
    }
    row_to_bf16(sum, d.out + token * width, static_cast<std::int64_t>(width));
  }
}

}  // namespace mok::cpu
