// grad_tiles.cpp: gradients of hidden (with SwiGLU backward and the partial sums of dw) and of x rows.
#include <algorithm>

#include "cpu/engine/elementwise.hpp"
#include "cpu/swiglu.hpp"
#include "cpu/tiles.hpp"
#include "cpu/transfer.hpp"

namespace mok::cpu {

namespace {

// One hidden-gradient tile, routed or shared. In-place allowed: gate == d_gate, up == d_up.
struct HiddenGradTile {
  const Bf16* dy = nullptr;    // [rows, H]
  const Bf16* down = nullptr;  // [H, width]
  std::int64_t down_stride = 0;
  std::uint32_t rows = 0;
  std::uint32_t width = 0;
  std::uint32_t col0 = 0;
  std::uint32_t cols = 0;
  const Bf16* gate = nullptr;  // [rows, width]
  const Bf16* up = nullptr;
  const float* scale = nullptr;  // w (or s) of each row, nullptr: 1
  Bf16* d_gate = nullptr;        // [rows, width]
  Bf16* d_up = nullptr;
  Bf16* scaled_hidden = nullptr;  // w*h
  float* partials = nullptr;      // [rows, num_partials]
  std::uint32_t num_partials = 0;
};

void run_hidden_grad(const CallData& d, const HiddenGradTile& t, Worker& worker) {
  float* acc = worker.scratch->acc;
  d.engine->gemm({{t.dy, d.hidden(), Major::kK},
                  {t.down + t.col0, t.down_stride, Major::kMn},
                  static_cast<int>(t.rows),
                  static_cast<int>(t.cols),
                  d.hidden(),
                  acc,
                  kMaxTileCols,
                  Accumulate::kOverwrite},
                 worker.scratch->packing);
  const std::uint32_t run = d.view.geo.partial_cols;
  for (std::uint32_t row = 0; row < t.rows; ++row) {
    float* line = acc + std::uint64_t{row} * kMaxTileCols;
    const std::uint64_t at = std::uint64_t{row} * t.width + t.col0;
    const float scale = t.scale != nullptr ? t.scale[row] : 1.0F;
    for (std::uint32_t col = 0; col < t.cols; ++col) {
      const float dh = line[col];
      const SwigluGrad g =
          swiglu_grad(to_float(t.gate[at + col]), to_float(t.up[at + col]), d.limit, scale * dh);
      t.d_gate[at + col] = to_bf16(g.gate);
      t.d_up[at + col] = to_bf16(g.up);
      t.scaled_hidden[at + col] = to_bf16(scale * g.hidden);
      line[col] = dh * g.hidden;
    }
    float* partials = t.partials + std::uint64_t{row} * t.num_partials + t.col0 / run;
    for (std::uint32_t col = 0; col < t.cols; col += run) {
      *partials++ = tree_run(line + col, std::min(run, t.cols - col), run);
    }
  }
}

// acc = d_gate . gate + d_up . up for columns [col0, col0 + cols) of H: one sum, K = 2 * width.
struct InputGradTile {
  const Bf16* d_gate = nullptr;
  const Bf16* d_up = nullptr;
  const Bf16* gate = nullptr;  // [width, H]
  std::int64_t gate_stride = 0;
  const Bf16* up = nullptr;
  std::int64_t up_stride = 0;
  std::uint32_t rows = 0;
  std::int64_t width = 0;
  std::uint32_t col0 = 0;
  std::uint32_t cols = 0;
};

void run_input_grad(const CallData& d, const InputGradTile& t, Worker& worker) {
  const int rows = static_cast<int>(t.rows);
  const int cols = static_cast<int>(t.cols);
  d.engine->gemm({{t.d_gate, t.width, Major::kK},
                  {t.gate + t.col0, t.gate_stride, Major::kMn},
                  rows,
                  cols,
                  t.width,
                  worker.scratch->acc,
                  kMaxTileCols,
                  Accumulate::kOverwrite},
                 worker.scratch->packing);
  d.engine->gemm({{t.d_up, t.width, Major::kK},
                  {t.up + t.col0, t.up_stride, Major::kMn},
                  rows,
                  cols,
                  t.width,
                  worker.scratch->acc,
                  kMaxTileCols,
                  Accumulate::kContinue},
                 worker.scratch->packing);
}

float sum_partials(const float* partials, std::uint64_t count) {
  float sum = partials[0];
  for (std::uint64_t i = 1; i < count; ++i) {
    sum += partials[i];
  }
  return sum;
}

}  // namespace

float tree_run(const float* v, std::uint32_t count, std::uint32_t run) {
  float lane[kMaxRun] = {};
  std::copy(v, v + count, lane);
  for (std::uint32_t step = run / 2; step > 0; step /= 2) {
    for (std::uint32_t i = 0; i < step; ++i) {
      lane[i] += lane[i + step];
    }
  }
  return lane[0];
}

void hidden_grad_tile(const CallData& d, const Task& task, Worker& worker) {
  const BlockRecord& b = d.view.routes.blocks[task.index];
  HiddenGradTile t;
  t.dy = d.dy_rows(task.index);
  t.down = expert_matrix(d.weights.down, b.expert);
  t.down_stride = d.weights.down.row_stride;
  t.rows = b.rows;
  t.width = d.view.intermediate;
  t.col0 = task.col * d.view.geo.tile_cols;
  t.cols = std::min<std::uint32_t>(d.view.geo.tile_cols, t.width - t.col0);
  t.gate = d.gate_rows(task.index);
  t.up = d.up_rows(task.index);
  t.scale = d.own<float>(d.layout->arena.row_weights) + d.route_row_of(b);
  t.d_gate = d.gate_ring_rows(task.index);
  t.d_up = d.up_ring_rows(task.index);
  t.scaled_hidden = d.hidden_ring_rows(task.index);
  t.num_partials = static_cast<std::uint32_t>(d.sizes->partials);
  t.partials = d.mine<float>(d.layout->local.partials) + d.ring_row_of(b) * t.num_partials;
  run_hidden_grad(d, t, worker);
}

void shared_hidden_grad_tile(const CallData& d, const Task& task, Worker& worker) {
  const TokenRows tokens = token_rows(d, task.index);
  const std::uint64_t at = std::uint64_t{tokens.first} * d.view.shared_intermediate;
  const bool replay = d.view.shared_replay == Flagged::kYes;
  HiddenGradTile t;
  t.dy = d.dy + std::uint64_t{tokens.first} * d.view.hidden;
  t.down = expert_matrix(d.weights.shared_down, 0);
  t.down_stride = d.weights.shared_down.row_stride;
  t.rows = tokens.count;
  t.width = d.view.shared_intermediate;
  t.col0 = task.col * d.view.geo.tile_cols;
  t.cols = std::min<std::uint32_t>(d.view.geo.tile_cols, t.width - t.col0);
  t.d_gate = d.mine<Bf16>(d.layout->local.shared_gate) + at;
  t.d_up = d.mine<Bf16>(d.layout->local.shared_up) + at;
  t.gate = replay ? t.d_gate : d.context<Bf16>(d.layout->context.shared_gate) + at;
  t.up = replay ? t.d_up : d.context<Bf16>(d.layout->context.shared_up) + at;
  t.scale = d.view.output_gate == Flagged::kYes
                ? d.mine<float>(d.layout->local.shared_scale) + tokens.first
                : nullptr;
  t.scaled_hidden = d.mine<Bf16>(d.layout->local.shared_hidden) + at;
  t.num_partials = static_cast<std::uint32_t>(d.sizes->shared_partials);
  t.partials =
      d.mine<float>(d.layout->local.shared_partials) + std::uint64_t{tokens.first} * t.num_partials;
  run_hidden_grad(d, t, worker);
}

void input_grad_tile(const CallData& d, const Task& task, Worker& worker) {
  const BlockRecord& b = d.view.routes.blocks[task.index];
  InputGradTile t;
  t.d_gate = d.gate_ring_rows(task.index);
  t.d_up = d.up_ring_rows(task.index);
  t.gate = expert_matrix(d.weights.gate, b.expert);
  t.gate_stride = d.weights.gate.row_stride;
  t.up = expert_matrix(d.weights.up, b.expert);
  t.up_stride = d.weights.up.row_stride;
  t.rows = b.rows;
  t.width = d.intermediate();
  t.col0 = task.col * d.view.geo.tile_cols;
  t.cols = std::min<std::uint32_t>(d.view.geo.tile_cols, d.view.hidden - t.col0);
  run_input_grad(d, t, worker);
  Bf16 line[kMaxTileCols];
  const std::uint64_t num_partials = d.sizes->partials;
  const float* partials = d.mine<float>(d.layout->local.partials) + d.ring_row_of(b) * num_partials;
  for (std::uint32_t row = 0; row < b.rows; ++row) {
    row_to_bf16(worker.scratch->acc + std::uint64_t{row} * kMaxTileCols, line, t.cols);
    store_out_row(d, task.index, row, t.col0, line, t.cols, worker);
    if (task.col == 0) {
      store_dw(d, task.index, row, sum_partials(partials + row * num_partials, num_partials));
    }
  }
}

void shared_input_grad_tile(const CallData& d, const Task& task, Worker& worker) {
  const TokenRows tokens = token_rows(d, task.index);
  const std::uint64_t at = std::uint64_t{tokens.first} * d.view.shared_intermediate;
  InputGradTile t;
  t.d_gate = d.mine<Bf16>(d.layout->local.shared_gate) + at;
  t.d_up = d.mine<Bf16>(d.layout->local.shared_up) + at;
  t.gate = expert_matrix(d.weights.shared_gate, 0);
  t.gate_stride = d.weights.shared_gate.row_stride;
  t.up = expert_matrix(d.weights.shared_up, 0);
  t.up_stride = d.weights.shared_up.row_stride;
  t.rows = tokens.count;
  t.width = d.view.shared_intermediate;
  t.col0 = task.col * d.view.geo.tile_cols;
  t.cols = std::min<std::uint32_t>(d.view.geo.tile_cols, d.view.hidden - t.col0);
  run_input_grad(d, t, worker);
  Bf16* out = d.mine<Bf16>(d.layout->local.shared_out);
  const std::uint64_t num_partials = d.sizes->shared_partials;
  const bool gate = d.view.output_gate == Flagged::kYes && task.col == 0;
  for (std::uint32_t row = 0; row < tokens.count; ++row) {
    const std::uint64_t token = tokens.first + row;
    row_to_bf16(worker.scratch->acc + std::uint64_t{row} * kMaxTileCols,
                out + token * d.view.hidden + t.col0, t.cols);
    if (gate) {
      const float s = d.mine<float>(d.layout->local.shared_scale)[token];
      const float ds = sum_partials(
          d.mine<float>(d.layout->local.shared_partials) + token * num_partials, num_partials);
      d.mine<float>(d.layout->local.shared_dz)[token] = ds * (s * (1.0F - s));
    }
  }
}

}  // namespace mok::cpu
