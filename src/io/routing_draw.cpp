// routing_draw.cpp: drawn logits, the router's dot products, top-k and softmax.
#include "io/routing_draw.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <new>
#include <string>

#include "io/draw.hpp"
#include "io/portable_math.hpp"
#include "io/routing_file.hpp"

namespace mok::io {

namespace {

constexpr float kLargest = std::numeric_limits<float>::max();

// NaN fails every comparison, so it must be replaced before any.
float finite_logit(float logit) {
  return std::isnan(logit) ? -kLargest : std::clamp(logit, -kLargest, kLargest);
}

// Softmax over the chosen logits, which `weights` holds; the sum runs in slot order.
void softmax_in_place(std::span<float> weights) {
  const float largest = *std::max_element(weights.begin(), weights.end());
  float sum = 0.0F;
  for (float& weight : weights) {
    weight = portable_exp(weight - largest);  // a difference of -infinity gives 0
    sum += weight;
  }
  for (float& weight : weights) {
    weight /= sum;
  }
}

// The k largest logits in falling order into `best`, by insertion: k is small, hits are rare.
void select_largest(std::span<const float> logits, std::int32_t first_id,
                    std::span<std::int32_t> ids, std::span<float> best) {
  const std::size_t topk = ids.size();
  std::size_t num_found = 0;
  for (std::size_t e = 0; e < logits.size(); ++e) {
    const float logit = finite_logit(logits[e]);
    if (num_found == topk && (topk == 0 || !(logit > best[topk - 1]))) {
      continue;
    }
    std::size_t place = num_found < topk ? num_found++ : topk - 1;
    for (; place > 0 && logit > best[place - 1]; --place) {
      best[place] = best[place - 1];
      ids[place] = ids[place - 1];
    }
    best[place] = logit;
    ids[place] = first_id + static_cast<std::int32_t>(e);
  }
}

// Sixteen running sums, then a fixed tree: the order depends on H alone.
float dot(std::span<const float> a, std::span<const float> b) {
  constexpr std::size_t kLanes = 16;
  std::array<float, kLanes> sums{};
  std::size_t i = 0;
  for (; i + kLanes <= a.size(); i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      sums[lane] += a[i + lane] * b[i + lane];
    }
  }
  for (std::size_t lane = 0; i < a.size(); ++i, ++lane) {
    sums[lane] += a[i] * b[i];
  }
  for (std::size_t width = kLanes / 2; width > 0; width /= 2) {
    for (std::size_t lane = 0; lane < width; ++lane) {
      sums[lane] += sums[lane + width];
    }
  }
  return sums[0];
}

Status check_shape(RoutingShape shape, std::size_t num_ids, std::size_t num_weights) {
  if (shape.num_experts < 1 || shape.num_experts > kMaxExperts) {
    return Status::bad_argument("experts", std::to_string(shape.num_experts),
                                "must be from 1 to " + std::to_string(kMaxExperts));
  }
  if (shape.topk < 1 || shape.topk > kMaxTopk || shape.topk > shape.num_experts) {
    return Status::bad_argument(
        "topk", std::to_string(shape.topk),
        "must be from 1 to " + std::to_string(std::min<std::int64_t>(kMaxTopk, shape.num_experts)) +
            " (at most 32, at most the experts)");
  }
  if (num_ids != num_weights || num_ids % static_cast<std::size_t>(shape.topk) != 0) {
    return Status::bad_argument(
        "ids and weights",
        std::to_string(num_ids) + " and " + std::to_string(num_weights) + " elements",
        "both must be tokens x topk");
  }
  return {};
}

}  // namespace

void select_topk(std::span<const float> logits, std::int32_t first_id, std::span<std::int32_t> ids,
                 std::span<float> weights) {
  if (ids.empty()) {
    return;
  }
  select_largest(logits, first_id, ids, weights);
  softmax_in_place(weights);
}

Status draw_routing(DrawnRouting kind, RoutingShape shape, std::uint64_t seed, std::uint64_t stream,
                    std::int64_t first_token, std::span<std::int32_t> ids,
                    std::span<float> weights) {
  if (Status status = check_shape(shape, ids.size(), weights.size()); !status.ok()) {
    return status;
  }
  if (first_token < 0) {
    return Status::bad_argument("first_token", std::to_string(first_token), "must be at least 0");
  }
  const auto num_experts = static_cast<std::size_t>(shape.num_experts);
  const auto topk = static_cast<std::size_t>(shape.topk);
  std::vector<float> logits(num_experts);
  std::vector<float> lowered(kind == DrawnRouting::kZipf ? num_experts : 0);
  for (std::size_t e = 0; e < lowered.size(); ++e) {
    lowered[e] = portable_log(static_cast<float>(e + 1));
  }
  for (std::size_t t = 0; t * topk < ids.size(); ++t) {
    const std::uint64_t token = static_cast<std::uint64_t>(first_token) + t;
    const std::span<std::int32_t> token_ids = ids.subspan(t * topk, topk);
    const std::span<float> token_weights = weights.subspan(t * topk, topk);
    fill_normal(logits, seed, stream, token * num_experts);
    for (std::size_t e = 0; e < lowered.size(); ++e) {
      logits[e] -= lowered[e];
    }
    if (kind == DrawnRouting::kHot) {
      token_ids[0] = 0;
      token_weights[0] = logits[0];
      select_largest(std::span(logits).subspan(1), 1, token_ids.subspan(1),
                     token_weights.subspan(1));
      softmax_in_place(token_weights);
    } else {
      select_topk(logits, 0, token_ids, token_weights);
    }
  }
  return {};
}

Result<Router> Router::draw(std::int64_t num_experts, std::int64_t hidden, std::uint64_t seed,
                            std::uint64_t stream) {
  if (Status status = check_shape({num_experts, 1}, 0, 0); !status.ok()) {
    return failure(std::move(status));
  }
  constexpr std::int64_t kMaxHidden = std::int64_t{1} << 24;
  if (hidden < 1 || hidden > kMaxHidden) {
    return failure(Status::bad_argument("hidden", std::to_string(hidden),
                                        "must be from 1 to " + std::to_string(kMaxHidden)));
  }
  try {
    std::vector<float> matrix(static_cast<std::size_t>(num_experts * hidden));
    fill_normal(matrix, seed, stream, 0);
    const float scale = 1.0F / std::sqrt(static_cast<float>(hidden));
    for (float& value : matrix) {
      value = round_bf16(scale * value);
    }
    return Router(num_experts, hidden, std::move(matrix));
  } catch (const std::bad_alloc&) {
    return failure(Status::environment(
        "router matrix",
        std::to_string(num_experts) + " x " + std::to_string(hidden) + " values of 4 bytes",
        "must fit in memory: use fewer experts or a smaller hidden size"));
  }
}

Status Router::route(std::span<const Bf16> x, int topk, std::span<std::int32_t> ids,
                     std::span<float> weights) const {
  if (Status status = check_shape({num_experts_, topk}, ids.size(), weights.size()); !status.ok()) {
    return status;
  }
  const auto hidden = static_cast<std::size_t>(hidden_);
  const auto topk_size = static_cast<std::size_t>(topk);
  const std::size_t num_tokens = ids.size() / topk_size;
  if (x.size() != num_tokens * hidden) {
    return Status::bad_argument(
        "x", std::to_string(x.size()) + " elements",
        "must be tokens x hidden = " + std::to_string(num_tokens) + " x " + std::to_string(hidden));
  }
  std::vector<float> state(hidden);
  std::vector<float> logits(static_cast<std::size_t>(num_experts_));
  for (std::size_t t = 0; t < num_tokens; ++t) {
    const std::span<const Bf16> row = x.subspan(t * hidden, hidden);
    std::transform(row.begin(), row.end(), state.begin(), to_float);
    for (std::size_t e = 0; e < logits.size(); ++e) {
      logits[e] = dot(state, std::span<const float>(matrix_).subspan(e * hidden, hidden));
    }
    select_topk(logits, 0, ids.subspan(t * topk_size, topk_size),
                weights.subspan(t * topk_size, topk_size));
  }
  return {};
}

}  // namespace mok::io
