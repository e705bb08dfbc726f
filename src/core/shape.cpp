// shape.cpp: the rules that a layer's sizes and options must keep, and the defaults.
#include "mok/shape.hpp"

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

// Rows, tickets and counts are 32-bit words; their largest values, from shape alone.
Status validate_words(const LayerShape& shape, int num_ranks) {
  const auto u64 = [](std::int64_t value) { return static_cast<std::uint64_t>(value); };
  const std::uint64_t slots = Carver::mul(u64(shape.max_tokens), u64(shape.topk));
  const std::uint64_t local = u64(local_expert_count(shape, num_ranks));
  const std::uint64_t rows =
      Carver::add(Carver::mul(slots, u64(num_ranks)), Carver::mul(local, kGeo.row_pad));
  if (rows >= (1ULL << 31)) {
    return Status::bad_argument("tokens", std::to_string(shape.max_tokens),
                                "tokens * topk * ranks + 64 * local experts must stay below 2^31");
  }
  const std::uint64_t blocks = rows / kGeo.block_rows + local;
  const std::uint64_t width = u64(shape.hidden) + u64(shape.intermediate);
  const std::uint64_t tiles = Carver::mul(blocks, 4 * (width / kGeo.tile_cols + 4));
  const std::uint64_t weight_tiles = 3 * (u64(shape.hidden) / kGeo.wgrad_rows + 1) *
                                     (u64(shape.intermediate) / kGeo.tile_cols + 2) * 2;
  const std::uint64_t tickets = Carver::add(tiles, Carver::mul(blocks, weight_tiles));
  if (tickets >= (1ULL << 32)) {
    return Status::bad_argument("hidden", std::to_string(shape.hidden),
                                "tasks of one call must stay below 2^32: fewer tokens, or smaller "
                                "hidden or intermediate");
  }
  const std::uint64_t pieces =
      Carver::mul(slots, u64(ceil_div(shape.hidden, std::int64_t{kGeo.tile_cols})));
  if (pieces >= (1ULL << 28)) {
    return Status::bad_argument("tokens", std::to_string(shape.max_tokens),
                                "tokens * topk * (hidden / 256) must stay below 2^28");
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
      range("ranks", num_ranks, 1, kMaxRanks, "must be 1 .. 65535"),
      range("tokens", shape.max_tokens, 0, kMost, "must be 0 .. 2^31"),
      range("hidden", shape.hidden, 8, kMost, "must be a multiple of 8, 8 .. 2^31"),
      multiple("hidden", shape.hidden, 8, "must be a multiple of 8"),
      range("intermediate", shape.intermediate, 8, kMost, "must be a multiple of 8, 8 .. 2^31"),
      multiple("intermediate", shape.intermediate, 8, "must be a multiple of 8"),
      range("shared-intermediate", shape.shared_intermediate, 0, kMost,
            "must be 0 (no shared expert) or a multiple of 8 up to 2^31"),
      multiple("shared-intermediate", shape.shared_intermediate, 8, "must be a multiple of 8"),
      range("experts", shape.experts, 1, 1 << 24, "must be 1 .. 2^24"),
      range("topk", shape.topk, 1, 32, "must be 1 .. 32"),
      range("workers", options.workers, 0, 1024, "must be 0 (automatic) .. 1024"),
      range("join-deadline-ms", options.join_deadline_ms, 1, 1LL << 40, "must be 1 .. 2^40"),
      range("progress-deadline-ms", options.progress_deadline_ms, 1, 1LL << 40,
            "must be 1 .. 2^40"),
  };
  for (const Status& check : checks) {
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
    return Status::bad_argument("output-gate", "on",
                                "needs a shared expert (shared-intermediate > 0)");
  }
  if (shape.swiglu_limit && !(std::isfinite(*shape.swiglu_limit) && *shape.swiglu_limit > 0.0F)) {
    return Status::bad_argument("swiglu-limit", std::to_string(*shape.swiglu_limit),
                                "must be a finite number above 0");
  }
  if (options.ring_rows != 0) {
    if (options.ring_rows < smallest_ring_rows()) {
      return Status::bad_argument("ring-rows", std::to_string(options.ring_rows),
                                  "must be at least " + std::to_string(smallest_ring_rows()));
    }
    if (Status s = multiple("ring-rows", options.ring_rows, 64, "must be a multiple of 64");
        !s.ok()) {
      return s;
    }
    if (Status s = range("ring-rows", options.ring_rows, 0, kMost, "must be at most 2^31");
        !s.ok()) {
      return s;
    }
  }
  if (options.saved_rows != -1) {
    if (Status s = range("saved-rows", options.saved_rows, 0, kMost, "must be 0 .. 2^31");
        !s.ok()) {
      return s;
    }
    if (Status s = multiple("saved-rows", options.saved_rows, 64, "must be a multiple of 64");
        !s.ok()) {
      return s;
    }
  }
  return validate_words(shape, num_ranks);
}

}  // namespace mok
