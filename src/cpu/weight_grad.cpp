// weight_grad.cpp: weight gradient tiles: one owner per (expert, tile), K = the expert's rows in order.
//
// Rows are summed in segments of segment_rows, each from zero, the segments added in fp32 in order. At
// the end of a part whose expert goes on, the running segment and the sum so far wait in spill memory.
#include <algorithm>
#include <cstring>

#include "cpu/tiles.hpp"

namespace mok::cpu {

namespace {

struct Product {
  Operand a;  // rows of the weight
  Operand b;  // columns
};

struct Shape {
  std::uint32_t rows;
  std::uint32_t cols;
};

// The running sums of one tile, and how far the expert's rows have come.
class TileSum {
 public:
  TileSum(const CallData& d, Worker& worker, Shape shape, std::uint32_t start)
      : d_(d), worker_(worker), scratch_(*worker.scratch), shape_(shape), at_(start) {}

  // Adds `count` further rows; the operands' k runs from the first of them.
  void add(const Product& p, std::uint32_t count) {
    std::uint32_t done = 0;
    while (done < count) {
      const std::uint32_t segment = d_.view.geo.segment_rows;
      const std::uint32_t inside = at_ % segment;
      if (inside == 0 && at_ > 0) {
        close_segment(at_ == segment ? Segment::kFirst : Segment::kLater);
      }
      const std::uint32_t step = std::min(count - done, segment - inside);
      const auto shifted = [&](Operand o) {
        o.data += static_cast<std::int64_t>(done) * o.stride;  // kMn: the next k
        return o;
      };
      d_.engine->gemm({shifted(p.a), shifted(p.b), static_cast<int>(shape_.rows),
                       static_cast<int>(shape_.cols), step, scratch_.acc, kMaxTileCols,
                       inside == 0 ? Accumulate::kOverwrite : Accumulate::kContinue},
                      scratch_.packing);
      at_ += step;
      done += step;
      worker_.show_life();
    }
  }

  // The whole sum ends up in acc.
  float* finish() {
    if (has_sum()) {
      close_segment(Segment::kLater);
      return scratch_.sum;
    }
    return scratch_.acc;
  }

  // To and from spill memory, laid out like the weight.
  void spill(float* segment, float* sum, std::int64_t stride) const {
    copy_rows(scratch_.acc, kMaxTileCols, segment, stride);
    if (has_sum()) {
      copy_rows(scratch_.sum, kMaxTileCols, sum, stride);
    }
  }
  void reload(const float* segment, const float* sum, std::int64_t stride) {
    copy_rows(segment, stride, scratch_.acc, kMaxTileCols);
    if (has_sum()) {
      copy_rows(sum, stride, scratch_.sum, kMaxTileCols);
    }
  }

 private:
  enum class Segment { kFirst, kLater };
  void close_segment(Segment which) {
    for (std::uint32_t row = 0; row < shape_.rows; ++row) {
      float* sum = scratch_.sum + std::uint64_t{row} * kMaxTileCols;
      const float* acc = scratch_.acc + std::uint64_t{row} * kMaxTileCols;
      for (std::uint32_t col = 0; col < shape_.cols; ++col) {
        sum[col] = which == Segment::kFirst ? acc[col] : sum[col] + acc[col];
      }
    }
  }
  // A segment has been closed before.
  [[nodiscard]] bool has_sum() const { return at_ > d_.view.geo.segment_rows; }
  void copy_rows(const float* from, std::int64_t from_stride, float* to,
                 std::int64_t to_stride) const {
    for (std::uint32_t row = 0; row < shape_.rows; ++row) {
      std::memcpy(to + row * to_stride, from + row * from_stride, shape_.cols * sizeof(float));
    }
  }

  const CallData& d_;
  const Worker& worker_;
  WorkerScratch& scratch_;
  Shape shape_;
  std::uint32_t at_;  // rows of the expert summed so far
};

// A weight gradient's place in the caller's memory.
struct Target {
  void* base = nullptr;
  std::int64_t row_stride = 0;
};
Target target_of(const GradMatrix& m, std::uint32_t expert, std::size_t element_bytes) {
  if (m.table != nullptr) {
    return {m.table[expert], m.row_stride};
  }
  const std::int64_t offset = static_cast<std::int64_t>(expert) * m.expert_stride;
  return {static_cast<std::byte*>(m.base) + offset * static_cast<std::int64_t>(element_bytes),
          m.row_stride};
}
std::size_t element_bytes(Grad kind) {
  return kind == Grad::kBf16 ? sizeof(Bf16) : sizeof(float);
}

// `values` nullptr: zeros.
void store(Grad kind, const Target& target, const WeightTile& tile, Shape shape,
           const float* values) {
  for (std::uint32_t row = 0; row < shape.rows; ++row) {
    const std::int64_t at = (tile.row0 + row) * target.row_stride + tile.col0;
    for (std::uint32_t col = 0; col < shape.cols; ++col) {
      const float value =
          values == nullptr ? 0.0F : values[std::uint64_t{row} * kMaxTileCols + col];
      switch (kind) {
        case Grad::kBf16: static_cast<Bf16*>(target.base)[at + col] = to_bf16(value); break;
        case Grad::kFp32: static_cast<float*>(target.base)[at + col] = value; break;
        case Grad::kMainGrad: static_cast<float*>(target.base)[at + col] += value; break;
      }
    }
  }
}

Shape tile_shape(const CallData& d, const WeightTile& tile, std::uint32_t width) {
  const bool down = tile.kind == WeightKind::kDown;
  const std::uint32_t rows = down ? d.view.hidden : width;
  const std::uint32_t cols = down ? width : d.view.hidden;
  return {std::min<std::uint32_t>(d.view.geo.wgrad_rows, rows - tile.row0),
          std::min<std::uint32_t>(d.view.geo.tile_cols, cols - tile.col0)};
}

const GradMatrix& routed_grad(const CallData& d, WeightKind kind) {
  return kind == WeightKind::kDown ? d.grads.down
                                   : (kind == WeightKind::kGate ? d.grads.gate : d.grads.up);
}
const GradMatrix& shared_grad(const CallData& d, WeightKind kind) {
  return kind == WeightKind::kDown
             ? d.grads.shared_down
             : (kind == WeightKind::kGate ? d.grads.shared_gate : d.grads.shared_up);
}

// Operands for rows that start at block `first` of an expert.
Product routed_product(const CallData& d, const WeightTile& tile, std::uint32_t first) {
  if (tile.kind == WeightKind::kDown) {
    return {{d.dy_rows(first) + tile.row0, d.hidden(), Major::kMn},
            {d.hidden_ring_rows(first) + tile.col0, d.intermediate(), Major::kMn}};
  }
  const Bf16* grad =
      tile.kind == WeightKind::kGate ? d.gate_ring_rows(first) : d.up_ring_rows(first);
  return {{grad + tile.row0, d.intermediate(), Major::kMn},
          {d.x_rows(first) + tile.col0, d.hidden(), Major::kMn}};
}

}  // namespace

void weight_grad_tile(const CallData& d, const Task& task, Worker& worker) {
  const RouteView& r = d.view.routes;
  const PartRecord& part = r.parts[task.index];
  const WeightTile tile = weight_tile(d.view.geo, d.view.hidden, d.view.intermediate, task.col);
  const Shape shape = tile_shape(d, tile, d.view.intermediate);
  const std::uint32_t start = r.blocks[part.first_block].row0 - r.expert_row0[part.expert];
  TileSum sum(d, worker, shape, start);

  // Spill memory: [2][3][H*I], this tile's place in its gradient.
  const std::uint64_t matrix = std::uint64_t{d.view.hidden} * d.view.intermediate;
  const std::int64_t stride = tile.kind == WeightKind::kDown ? d.intermediate() : d.hidden();
  float* segment = d.mine<float>(d.layout->local.spill) +
                   static_cast<std::uint64_t>(tile.kind) * matrix + tile.row0 * stride + tile.col0;
  float* total = segment + 3 * matrix;
  if (part.reload != 0) {
    sum.reload(segment, total, stride);
  }
  // Blocks in the context and blocks in the ring lie apart; otherwise rows are contiguous.
  const std::uint32_t end = part.first_block + part.num_blocks;
  for (std::uint32_t first = part.first_block; first < end;) {
    std::uint32_t last = first;
    std::uint32_t rows = 0;
    while (last < end && d.is_saved(last) == d.is_saved(first)) {
      rows += r.blocks[last].rows;
      ++last;
    }
    sum.add(routed_product(d, tile, first), rows);
    first = last;
  }
  if (part.spill != 0) {
    sum.spill(segment, total, stride);
    return;
  }
  store(d.grads.kind,
        target_of(routed_grad(d, tile.kind), part.expert, element_bytes(d.grads.kind)), tile, shape,
        sum.finish());
}

void shared_weight_grad_tile(const CallData& d, const Task& task, Worker& worker) {
  const std::uint32_t width = d.view.shared_intermediate;
  const WeightTile tile = weight_tile(d.view.geo, d.view.hidden, width, task.col);
  const Shape shape = tile_shape(d, tile, width);
  const std::int64_t stride = width;
  Product p;
  if (tile.kind == WeightKind::kDown) {
    p = {{d.dy + tile.row0, d.hidden(), Major::kMn},
         {d.mine<Bf16>(d.layout->local.shared_hidden) + tile.col0, stride, Major::kMn}};
  } else {
    const std::uint64_t grad =
        tile.kind == WeightKind::kGate ? d.layout->local.shared_gate : d.layout->local.shared_up;
    p = {{d.mine<Bf16>(grad) + tile.row0, stride, Major::kMn},
         {d.x + tile.col0, d.hidden(), Major::kMn}};
  }
  const Grad kind = d.grads.shared_kind;
  const Target target = target_of(shared_grad(d, tile.kind), 0, element_bytes(kind));
  if (d.view.tokens == 0) {
    if (kind != Grad::kMainGrad) {
      store(kind, target, tile, shape, nullptr);
    }
    return;
  }
  TileSum sum(d, worker, shape, 0);
  sum.add(p, d.view.tokens);
  store(kind, target, tile, shape, sum.finish());
}

void zero_grad_tile(const CallData& d, const Task& task) {
  const std::uint32_t expert = d.view.routes.empty_experts[task.index];
  const WeightTile tile = weight_tile(d.view.geo, d.view.hidden, d.view.intermediate, task.col);
  store(d.grads.kind, target_of(routed_grad(d, tile.kind), expert, element_bytes(d.grads.kind)),
        tile, tile_shape(d, tile, d.view.intermediate), nullptr);
}

}  // namespace mok::cpu
