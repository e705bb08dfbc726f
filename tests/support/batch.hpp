// batch.hpp: random routing of a whole group: ids of every rank, with the odd cases made likely.
#pragma once

#include <cstdint>
#include <vector>

#include "support/random.hpp"

namespace mok::testing {

struct Batch {
  std::uint32_t num_ranks = 1;
  std::uint32_t experts = 1;
  std::uint32_t topk = 1;
  std::vector<std::uint32_t> tokens;           // per rank
  std::vector<std::vector<std::int32_t>> ids;  // per rank [tokens, k]
};

enum class Skew : std::uint32_t {
  kEven,
  kHotExpert,
  kHotRank,
  kEmptyFirst,
  kEmptyMiddle,
  kEmptyLast,
  kNumSkews
};

// One id of a token at `rank`; -1 comes with every skew.
inline std::int32_t draw_id(Random& random, Skew skew, std::uint32_t experts,
                            std::uint32_t num_ranks) {
  if (random.one_in(9)) {
    return -1;
  }
  const std::uint32_t third = experts / 3;
  std::uint32_t id = random.below(experts);
  switch (skew) {
    case Skew::kHotExpert: id = random.one_in(8) ? id : experts / 2; break;
    case Skew::kHotRank:
      id = random.one_in(8) ? id : random.below((experts + num_ranks - 1) / num_ranks);
      break;
    case Skew::kEmptyFirst: id = id < third ? id + third : id; break;
    case Skew::kEmptyMiddle: id = id >= third && id < 2 * third ? id - third : id; break;
    case Skew::kEmptyLast: id = third > 0 && id >= 2 * third ? id % third : id; break;
    default: break;
  }
  return static_cast<std::int32_t>(id);
}

// tokens per rank are 0 .. most_tokens, some ranks 0; duplicates inside a token happen by chance.
inline Batch draw_batch(Random& random, std::uint32_t num_ranks, std::uint32_t experts,
                        std::uint32_t topk, std::uint32_t most_tokens) {
  Batch batch{num_ranks, experts, topk, {}, {}};
  const auto skew = static_cast<Skew>(random.below(static_cast<std::uint32_t>(Skew::kNumSkews)));
  const bool one_busy_rank = random.one_in(8);
  const std::uint32_t busy = random.below(num_ranks);
  for (std::uint32_t rank = 0; rank < num_ranks; ++rank) {
    const bool idle = random.one_in(6) || (one_busy_rank && rank != busy);
    batch.tokens.push_back(idle ? 0 : random.between(0, most_tokens));
    auto& ids = batch.ids.emplace_back(std::size_t{batch.tokens.back()} * topk);
    for (std::int32_t& id : ids) {
      id = draw_id(random, skew, experts, num_ranks);
    }
  }
  return batch;
}

}  // namespace mok::testing
