// routing_draw.hpp: routing decisions drawn or computed by global token index.
//
// A pure function of (seed, stream, global token, E, k): any split of the tokens over ranks,
// threads or calls gives the same batch. The k ids of a token are distinct, in order of falling
// logit (of equal logits the lower id first); its weights are the softmax over all experts,
// renormalised over the k chosen, so they sum to 1. Ids have the same bits on every machine.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/bf16.hpp"
#include "mok/status.hpp"

namespace mok::io {

enum class DrawnRouting : std::uint8_t {
  kUniform,  // standard normal logits: every expert equally likely
  kZipf,     // the logit of expert e lowered by ln(e + 1): its odds fall like 1/(e + 1)
  kHot,      // slot 0 of every token is expert 0, the other slots uniform over the rest
};

struct RoutingShape {
  std::int64_t num_experts = 0;
  int topk = 0;
};

// Fills tokens [first_token, first_token + n); n follows from the sizes of ids and weights, both
// n * topk, row by row.
[[nodiscard]] Status draw_routing(DrawnRouting kind, RoutingShape shape, std::uint64_t seed,
                                  std::uint64_t stream, std::int64_t first_token,
                                  std::span<std::int32_t> ids, std::span<float> weights);

// A linear router over the tokens' states: logits = x . R[e], fp32 in an order fixed by H. R is
// drawn standard normal over sqrt(H), rounded to bf16. Logits that are not finite never hurt: NaN
// counts as the lowest value and infinities as the largest finite ones, so ids and weights are
// always valid.
class Router {
 public:
  static Result<Router> draw(std::int64_t num_experts, std::int64_t hidden, std::uint64_t seed,
                             std::uint64_t stream);

  // x holds n tokens [n, hidden]; ids and weights n * topk.
  [[nodiscard]] Status route(std::span<const Bf16> x, int topk, std::span<std::int32_t> ids,
                             std::span<float> weights) const;

  // R [E, hidden], the values of bf16 numbers.
  [[nodiscard]] std::span<const float> matrix() const { return matrix_; }

 private:
  Router(std::int64_t num_experts, std::int64_t hidden, std::vector<float> matrix)
      : num_experts_(num_experts), hidden_(hidden), matrix_(std::move(matrix)) {}
  std::int64_t num_experts_;
  std::int64_t hidden_;
  std::vector<float> matrix_;
};

// Top-k of the logits and their renormalised softmax; ids are first_id + position. Also takes NaN
// and infinities, as Router says. ids.size() == weights.size() <= logits.size().
void select_topk(std::span<const float> logits, std::int32_t first_id, std::span<std::int32_t> ids,
                 std::span<float> weights);

}  // namespace mok::io
