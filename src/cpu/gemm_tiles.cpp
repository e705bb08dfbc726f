// gemm_tiles.cpp: gate-up tiles with SwiGLU in the epilogue, down tiles with the row scatter.
#include <algorithm>

#include "cpu/engine/elementwise.hpp"
#include "cpu/swiglu.hpp"
#include "cpu/tiles.hpp"
#include "cpu/transfer.hpp"

namespace mok::cpu {

namespace {

// One gate-up tile, routed or shared: columns [col0, col0 + cols) of gate and up.
struct GateUpTile {
  const Bf16* x = nullptr;
  std::int64_t x_stride = 0;
  const Bf16* gate_weight = nullptr;  // [width, H]
  std::int64_t gate_stride = 0;
  const Bf16* up_weight = nullptr;
  std::int64_t up_stride = 0;
  std::uint32_t rows = 0;
  std::uint32_t width = 0;
  std::uint32_t col0 = 0;
  std::uint32_t cols = 0;
  Bf16* gate = nullptr;    // [rows, width], nullptr: not kept
  Bf16* up = nullptr;      // likewise
  Bf16* hidden = nullptr;  // likewise
};

void run_gate_up(const CallData& d, const GateUpTile& t, Worker& worker) {
  float* acc = worker.scratch->acc;
  const std::int64_t stride = kMaxTileCols;
  const std::uint32_t half = kMaxTileCols / 2;
  const Operand x{t.x, t.x_stride, Major::kK};
  const int rows = static_cast<int>(t.rows);
  const int cols = static_cast<int>(t.cols);
  d.engine->gemm({x,
                  {t.gate_weight + t.col0 * t.gate_stride, t.gate_stride, Major::kK},
                  rows,
                  cols,
                  d.hidden(),
                  acc,
                  stride,
                  Accumulate::kOverwrite},
                 worker.scratch->packing);
  d.engine->gemm({x,
                  {t.up_weight + t.col0 * t.up_stride, t.up_stride, Major::kK},
                  rows,
                  cols,
                  d.hidden(),
                  acc + half,
                  stride,
                  Accumulate::kOverwrite},
                 worker.scratch->packing);
  for (std::uint32_t row = 0; row < t.rows; ++row) {
    const float* line = acc + row * stride;
    const std::uint64_t at = std::uint64_t{row} * t.width + t.col0;
    for (std::uint32_t col = 0; col < t.cols; ++col) {
      // Rounded before SwiGLU in every kind of call, so that a recompute has equal bits.
      const Bf16 gate = to_bf16(line[col]);
      const Bf16 up = to_bf16(line[half + col]);
      if (t.gate != nullptr) {
        t.gate[at + col] = gate;
        t.up[at + col] = up;
      }
      if (t.hidden != nullptr) {
        t.hidden[at + col] = to_bf16(swiglu(to_float(gate), to_float(up), d.limit));
      }
    }
  }
}

std::uint32_t tile_width(std::uint32_t width, std::uint32_t col0, std::uint32_t cols) {
  return std::min(cols, width - col0);
}

}  // namespace

TokenRows token_rows(const CallData& d, std::uint32_t block) {
  const std::uint32_t first = block * d.view.geo.block_rows;
  return {first, std::min<std::uint32_t>(d.view.geo.block_rows, d.view.tokens - first)};
}

void gate_up_tile(const CallData& d, const Task& task, Worker& worker) {
  const BlockRecord& b = d.view.routes.blocks[task.index];
  const std::uint32_t half = d.view.geo.tile_cols / 2;
  const bool keep = d.view.kind == CallKind::kBackward || d.is_saved(task.index);
  GateUpTile t;
  t.x = d.x_rows(task.index);
  t.x_stride = d.hidden();
  t.gate_weight = expert_matrix(d.weights.gate, b.expert);
  t.gate_stride = d.weights.gate.row_stride;
  t.up_weight = expert_matrix(d.weights.up, b.expert);
  t.up_stride = d.weights.up.row_stride;
  t.rows = b.rows;
  t.width = d.view.intermediate;
  t.col0 = task.col * half;
  t.cols = tile_width(t.width, t.col0, half);
  t.gate = keep ? d.gate_rows(task.index) : nullptr;
  t.up = keep ? d.up_rows(task.index) : nullptr;
  t.hidden = d.view.kind == CallKind::kForward ? d.hidden_ring_rows(task.index) : nullptr;
  run_gate_up(d, t, worker);
}

void shared_gate_up_tile(const CallData& d, const Task& task, Worker& worker) {
  const TokenRows tokens = token_rows(d, task.index);
  const std::uint32_t half = d.view.geo.tile_cols / 2;
  const std::uint64_t at = std::uint64_t{tokens.first} * d.view.shared_intermediate;
  GateUpTile t;
  t.x = d.x + std::uint64_t{tokens.first} * d.view.hidden;
  t.x_stride = d.hidden();
  t.gate_weight = expert_matrix(d.weights.shared_gate, 0);
  t.gate_stride = d.weights.shared_gate.row_stride;
  t.up_weight = expert_matrix(d.weights.shared_up, 0);
  t.up_stride = d.weights.shared_up.row_stride;
  t.rows = tokens.count;
  t.width = d.view.shared_intermediate;
  t.col0 = task.col * half;
  t.cols = tile_width(t.width, t.col0, half);
  if (d.view.kind == CallKind::kBackward) {
    t.gate = d.mine<Bf16>(d.layout->local.shared_gate) + at;
    t.up = d.mine<Bf16>(d.layout->local.shared_up) + at;
  } else if (d.saved != nullptr) {
    t.gate = d.context<Bf16>(d.layout->context.shared_gate) + at;
    t.up = d.context<Bf16>(d.layout->context.shared_up) + at;
  }
  if (d.view.kind == CallKind::kForward) {
    t.hidden = d.mine<Bf16>(d.layout->local.shared_hidden) + at;
  }
  run_gate_up(d, t, worker);
}

void down_tile(const CallData& d, const Task& task, Worker& worker) {
  const BlockRecord& b = d.view.routes.blocks[task.index];
  const std::uint32_t col0 = task.col * d.view.geo.tile_cols;
  const std::uint32_t cols = tile_width(d.view.hidden, col0, d.view.geo.tile_cols);
  float* acc = worker.scratch->acc;
  const std::int64_t stride = d.weights.down.row_stride;
  d.engine->gemm({{d.hidden_ring_rows(task.index), d.intermediate(), Major::kK},
                  {expert_matrix(d.weights.down, b.expert) + col0 * stride, stride, Major::kK},
                  static_cast<int>(b.rows),
                  static_cast<int>(cols),
                  d.intermediate(),
                  acc,
                  kMaxTileCols,
                  Accumulate::kOverwrite},
                 worker.scratch->packing);
  Bf16 line[kMaxTileCols];
  for (std::uint32_t row = 0; row < b.rows; ++row) {
    row_to_bf16(acc + std::uint64_t{row} * kMaxTileCols, line, cols);
    store_out_row(d, task.index, row, col0, line, cols, worker);
  }
}

void shared_down_tile(const CallData& d, const Task& task, Worker& worker) {
  const TokenRows tokens = token_rows(d, task.index);
  const std::uint32_t col0 = task.col * d.view.geo.tile_cols;
  const std::uint32_t cols = tile_width(d.view.hidden, col0, d.view.geo.tile_cols);
  const std::int64_t width = d.view.shared_intermediate;
  const std::int64_t stride = d.weights.shared_down.row_stride;
  float* acc = worker.scratch->acc;
  d.engine->gemm(
      {{d.mine<Bf16>(d.layout->local.shared_hidden) + tokens.first * width, width, Major::kK},
       {expert_matrix(d.weights.shared_down, 0) + col0 * stride, stride, Major::kK},
       static_cast<int>(tokens.count),
       static_cast<int>(cols),
       width,
       acc,
       kMaxTileCols,
       Accumulate::kOverwrite},
      worker.scratch->packing);
  Bf16* out = d.mine<Bf16>(d.layout->local.shared_out);
  for (std::uint32_t row = 0; row < tokens.count; ++row) {
    row_to_bf16(acc + std::uint64_t{row} * kMaxTileCols,
                out + std::uint64_t{tokens.first + row} * d.view.hidden + col0, cols);
  }
}

}  // namespace mok::cpu
