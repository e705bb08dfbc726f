// random_case.cpp: drawing a case.
#include "cli/random_case.hpp"

#include <algorithm>
#include <iterator>

#include "cli/names.hpp"
#include "io/draw.hpp"

namespace mok::cli {

namespace {

class Dice {
 public:
  Dice(std::uint64_t seed, std::uint32_t number)
      : seed_(seed), stream_(io::stream_id(io::Purpose::kTestCase, number, 0)) {}

  std::int64_t from(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(io::below(static_cast<std::uint64_t>(high - low + 1),
                                                     seed_, stream_, index_++));
  }
  bool one_in(std::int64_t count) { return from(1, count) == 1; }
  template <class Value, std::size_t N>
  Value word(const Word<Value> (&words)[N]) {
    return words[static_cast<std::size_t>(from(0, static_cast<std::int64_t>(N) - 1))].value;
  }
  std::uint64_t bits() { return io::bits64(seed_, stream_, index_++); }

 private:
  std::uint64_t seed_;
  std::uint64_t stream_;
  std::uint64_t index_ = 0;
};

void draw_shape(Dice& dice, LayerShape& shape) {
  shape.hidden = 8 * dice.from(1, 40);
  do {
    shape.intermediate = 8 * dice.from(1, 40);
  } while (shape.intermediate == shape.hidden);
  shape.shared_intermediate = 0;
  if (!dice.one_in(4)) {
    do {
      shape.shared_intermediate = 8 * dice.from(1, 24);
    } while (shape.shared_intermediate == shape.hidden ||
             shape.shared_intermediate == shape.intermediate);
  }
  shape.output_gate = shape.shared_intermediate > 0 && dice.one_in(2);
  shape.swiglu_limit.reset();
  if (dice.one_in(2)) {
    constexpr float kLimits[] = {0.25F, 1.0F, 7.0F};
    shape.swiglu_limit = kLimits[dice.from(0, 2)];
  }
  shape.experts = dice.from(1, 24);
  shape.topk = dice.from(1, std::min<std::int64_t>(shape.experts, 8));
}

void draw_options(Dice& dice, Options& options) {
  options.dispatch = dice.word(kDispatchWords);
  options.combine = dice.word(kCombineWords);
  options.dy_dispatch = dice.word(kDispatchWords);
  options.dx_combine = dice.word(kCombineWords);
  options.save = dice.word(kSaveWords);
  options.workers = static_cast<int>(dice.from(1, 2));
  switch (dice.from(0, 2)) {
    case 0: options.ring_rows = 0; break;
    case 1: options.ring_rows = smallest_ring_rows(); break;
    default: options.ring_rows = smallest_ring_rows() + 64 * dice.from(1, 8); break;
  }
  options.saved_rows = -1;
  if (options.save == Save::kAll && !dice.one_in(3)) {
    options.saved_rows = 64 * dice.from(0, 12);
  }
}

void draw_tokens(Dice& dice, std::vector<std::int64_t>& tokens) {
  tokens.assign(static_cast<std::size_t>(dice.from(1, 8)), 0);
  for (std::int64_t& each : tokens) {
    each = dice.one_in(5) ? 0 : dice.from(1, 70);
  }
}

}  // namespace

Case draw_case(std::uint64_t seed, std::uint32_t number) {
  Dice dice(seed, number);
  Case description;
  draw_shape(dice, description.shape);
  draw_options(dice, description.options);
  draw_tokens(dice, description.tokens);
  description.grad = dice.word(kGradWords);
  description.layers = dice.one_in(5) ? 2 : 1;
  description.microbatches = dice.one_in(5) ? 2 : 1;
  description.seed = dice.bits();
  description.x = XSource::kRandom;
  if (dice.one_in(2)) {
    description.routing = RoutingSource::kRandom;
  } else {
    description.routing = dice.word(kRoutingWords);
  }
  description.set_max_tokens();
  return description;
}

}  // namespace mok::cli
