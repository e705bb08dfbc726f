// shape.cpp: the rules that a layer's sizes and options must keep, and the defaults.
#include "mok/shape.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "core/carver.hpp"
#include "core/geometry.hpp"

namespace mok {

namespace {

constexpr StaticGeometry kGeo;
constexpr std::int64_t kMaxRanks = 65535;

std::int64_t local_expert_count(const LayerShape& shape, int num_ranks) {
  return ceil_div(shape.experts, std::int64_t{num_ranks});
}

Status range(const char* argument, std::int64_t value, std::int64_t low, std::int64_t high,
             const char* rule) {
  if (value < low || value > high) {
    return Status::bad_argument(argument, std::to_string(value), rule);
  }
  return {};
}

Status multiple(const char* argument, std::int64_t value, std::int64_t of, const char* rule) {
  return value % of == 0 ? Status{} : Status::bad_argument(argument, std::to_string(value), rule);
}

std::uint64_t u64(std::int64_t value) {
  return static_cast<std::uint64_t>(value);
}
// Tiles of one expert's three weight gradients.
std::uint64_t weight_tiles(std::uint64_t hidden, std::uint64_t width) {
  const auto tiles = [](std::uint64_t rows, std::uint64_t cols) {
    return ceil_div(rows, std::uint64_t{kGeo.wgrad_rows}) *
           ceil_div(cols, std::uint64_t{kGeo.tile_cols});
  };
  return width == 0 ? 0 : tiles(hidden, width) + 2 * tiles(width, hidden);
}
// Column tiles of a block in all its GEMMs of one direction, at most.
std::uint64_t block_tiles(std::uint64_t hidden, std::uint64_t width) {
  return ceil_div(2 * width, std::uint64_t{kGeo.tile_cols}) +
         ceil_div(width, std::uint64_t{kGeo.tile_cols}) +
         ceil_div(hidden, std::uint64_t{kGeo.tile_cols}) + 3;
}

// Rows and tickets are 32-bit words, counts 28-bit; their largest values, from shape and ring alone.
Status validate_words(const LayerShape& shape, std::int64_t ring_rows, int num_ranks) {
  const std::uint64_t tokens = u64(shape.max_tokens);
  const std::uint64_t slots = Carver::mul(tokens, u64(shape.topk));
  const std::uint64_t local = u64(local_expert_count(shape, num_ranks));
  const std::uint64_t rows =
      Carver::add(Carver::mul(slots, u64(num_ranks)), Carver::mul(local, kGeo.row_pad));
  if (rows >= (1ULL << 31)) {
    return Status::bad_argument(
        "max_tokens", std::to_string(shape.max_tokens),
        "max_tokens * topk * ranks + 64 * local experts must stay below 2^31");
  }
  const std::uint64_t hidden = u64(shape.hidden);
  const std::uint64_t width = u64(shape.intermediate);
  const std::uint64_t shared = u64(shape.shared_intermediate);
  const std::uint64_t blocks = rows / kGeo.block_rows + local + 1;
  // A part is an expert's rows in one phase: one an expert, and one more for each full ring cell.
  const std::uint64_t parts = local + rows / (u64(ring_rows) / kGeo.cells) + 1;
  const std::uint64_t shared_blocks = ceil_div(tokens, std::uint64_t{kGeo.block_rows});
  const std::uint64_t tickets =
      Carver::add(Carver::add(Carver::mul(blocks, block_tiles(hidden, width)),
                              Carver::mul(parts, weight_tiles(hidden, width))),
                  Carver::add(Carver::mul(shared_blocks, block_tiles(hidden, shared)),
                              Carver::add(weight_tiles(hidden, shared), tokens)));
  if (tickets >= (1ULL << 32)) {
    return Status::bad_argument(
        "hidden", std::to_string(shape.hidden),
        "tasks of one call must stay below 2^32: fewer tokens, or smaller hidden or widths");
  }
  // Counts: of a phase (at most a cell's blocks and parts), of the shared expert, of pieces.
  const std::uint64_t cell_blocks =
      std::min(blocks, u64(ring_rows) / kGeo.cells / kGeo.row_pad + 1);
  const std::uint64_t cell_parts = std::min(cell_blocks, local);
  const std::uint64_t phase = Carver::add(Carver::mul(cell_blocks, block_tiles(hidden, width)),
                                          Carver::mul(cell_parts, weight_tiles(hidden, width)));
  const std::uint64_t all_shared = Carver::mul(shared_blocks, block_tiles(hidden, shared));
  const std::uint64_t pieces = Carver::mul(slots, ceil_div(hidden, std::uint64_t{kGeo.tile_cols}));
  if (phase >= (1ULL << 28)) {
    return Status::bad_argument("ring_rows", std::to_string(ring_rows),
                                "tasks of one phase must stay below 2^28: a smaller ring");
  }
  if (all_shared >= (1ULL << 28)) {
    return Status::bad_argument("shared_intermediate", std::to_string(shape.shared_intermediate),
                                "tasks of the shared expert must stay below 2^28");
  }
  if (pieces >= (1ULL << 28)) {
    return Status::bad_argument("max_tokens", std::to_string(shape.max_tokens),
                                "max_tokens * topk * (hidden / 256) must stay below 2^28");
  }
  return {};
}

}  // namespace

std::string_view name(Dispatch value) {
  return value == Dispatch::kPull ? "pull" : "push";
}
std::string_view name(Combine value) {
  switch (value) {
    case Combine::kScatter: return "scatter";
    case Combine::kPush: return "push";
    case Combine::kPull: return "pull";
  }
  return "?";
}
std::string_view name(Save value) {
  return value == Save::kAll ? "all" : "none";
}
std::string_view name(Grad value) {
  switch (value) {
    case Grad::kBf16: return "bf16";
    case Grad::kFp32: return "fp32";
    case Grad::kMainGrad: return "main-grad";
  }
  return "?";
}

std::int64_t smallest_ring_rows() {
  return std::int64_t{kGeo.cells} * kGeo.block_rows;
}

std::int64_t default_ring_rows(const LayerShape& shape, int num_ranks) {
  const std::int64_t balanced = round_up(shape.max_tokens * shape.topk, std::int64_t{kGeo.row_pad});
  const std::int64_t rows = balanced + kGeo.row_pad * local_expert_count(shape, num_ranks);
  return rows > smallest_ring_rows() ? rows : smallest_ring_rows();
}

std::int64_t default_saved_rows(const LayerShape& shape, int num_ranks) {
  const std::int64_t balanced = round_up(
      ceil_div(shape.max_tokens * shape.topk * 5, std::int64_t{4}), std::int64_t{kGeo.row_pad});
  return balanced + kGeo.row_pad * local_expert_count(shape, num_ranks);
}

Status validate(const LayerShape& shape, const Options& options, int num_ranks) {
  constexpr std::int64_t kMost = 1LL << 31;
  const Status checks[] = {
      range("num_ranks", num_ranks, 1, kMaxRanks, "must be 1 .. 65535"),
      range("max_tokens", shape.max_tokens, 0, kMost, "must be 0 .. 2^31"),
      range("hidden", shape.hidden, 8, kMost, "must be a multiple of 8, 8 .. 2^31"),
      multiple("hidden", shape.hidden, 8, "must be a multiple of 8"),
      range("intermediate", shape.intermediate, 8, kMost, "must be a multiple of 8, 8 .. 2^31"),
      multiple("intermediate", shape.intermediate, 8, "must be a multiple of 8"),
      range("shared_intermediate", shape.shared_intermediate, 0, kMost,
            "must be 0 (no shared expert) or a multiple of 8 up to 2^31"),
      multiple("shared_intermediate", shape.shared_intermediate, 8, "must be a multiple of 8"),
      range("experts", shape.experts, 1, 1 << 24, "must be 1 .. 2^24"),
      range("topk", shape.topk, 1, 32, "must be 1 .. 32"),
      range("workers", options.workers, 0, 1024, "must be 0 (automatic) .. 1024"),
      range("join_deadline_ms", options.join_deadline_ms, 1, 1LL << 40, "must be 1 .. 2^40"),
      range("progress_deadline_ms", options.progress_deadline_ms, 1, 1LL << 40,
            "must be 1 .. 2^40"),
  };
  for (const Status& check : checks) {
    if (!check.ok()) {
      return check;
    }
  }
  const auto known = [](const char* argument, auto value, auto last) {
    return value <= last ? Status{}
                         : Status::bad_argument(argument, std::to_string(static_cast<int>(value)),
                                                "must be one of the enumerators");
  };
  for (const Status& check : {known("dispatch", options.dispatch, Dispatch::kPush),
                              known("dy_dispatch", options.dy_dispatch, Dispatch::kPush),
                              known("combine", options.combine, Combine::kPull),
                              known("dx_combine", options.dx_combine, Combine::kPull),
                              known("save", options.save, Save::kNone)}) {
    if (!check.ok()) {
      return check;
    }
  }
  if (shape.topk > shape.experts) {
    return Status::bad_argument("topk", std::to_string(shape.topk),
                                "must be at most experts = " + std::to_string(shape.experts));
  }
  if (local_expert_count(shape, num_ranks) > 65535) {
    return Status::bad_argument("experts", std::to_string(shape.experts),
                                "must be at most 65535 a rank");
  }
  if (shape.output_gate && shape.shared_intermediate == 0) {
    return Status::bad_argument("output_gate", "on",
                                "needs a shared expert (shared_intermediate > 0)");
  }
  if (shape.swiglu_limit && !(std::isfinite(*shape.swiglu_limit) && *shape.swiglu_limit > 0.0F)) {
    return Status::bad_argument("swiglu_limit", std::to_string(*shape.swiglu_limit),
                                "must be a finite number above 0");
  }
  if (options.ring_rows != 0) {
    if (options.ring_rows < smallest_ring_rows()) {
      return Status::bad_argument("ring_rows", std::to_string(options.ring_rows),
                                  "must be at least " + std::to_string(smallest_ring_rows()));
    }
    if (Status s = multiple("ring_rows", options.ring_rows, 64, "must be a multiple of 64");
        !s.ok()) {
      return s;
    }
    if (Status s = range("ring_rows", options.ring_rows, 0, kMost, "must be at most 2^31");
        !s.ok()) {
      return s;
    }
  }
  if (options.saved_rows != -1) {
    if (Status s = range("saved_rows", options.saved_rows, 0, kMost, "must be 0 .. 2^31");
        !s.ok()) {
      return s;
    }
    if (Status s = multiple("saved_rows", options.saved_rows, 64, "must be a multiple of 64");
        !s.ok()) {
      return s;
    }
  }
  const std::int64_t ring_rows =
      options.ring_rows != 0 ? options.ring_rows : default_ring_rows(shape, num_ranks);
  return validate_words(shape, ring_rows, num_ranks);
}

}  // namespace mok
