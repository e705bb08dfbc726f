// compare.hpp: how far an implementation's array is from the reference, in three measures.
#pragma once

#include <cstdint>
#include <span>

#include "core/bf16.hpp"
#include "reference/reference.hpp"

namespace mok::reference {

struct Comparison {
  double max_abs_err = 0.0;
  double max_abs_reference = 0.0;
  double rel_err = 0.0;  // max_abs_err / max_abs_reference (0/0 = 0)
  // The largest |result - value| / bound: 0 where both are 0, infinite where only the bound is 0,
  // where the result is NaN, and for an array of another size than the reference's.
  double error_over_bound = 0.0;
  std::int64_t worst_index = -1;  // flat index in the whole array; -1 when nothing was compared
  double worst_result = 0.0;
  double worst_reference = 0.0;
  double worst_bound = 0.0;
  std::int64_t num_compared = 0;
  // Elements whose exact value or bound is not finite (NaN or Inf in the inputs, overflow). Nothing
  // can be said of them; they are in none of the measures above.
  std::int64_t num_unchecked = 0;
};

[[nodiscard]] Comparison compare(std::span<const Bf16> result, const Expected::Array& expected);
[[nodiscard]] Comparison compare(std::span<const float> result, const Expected::Array& expected);

// `result` is the whole array; only the places of `output` in `expected` are looked at. Without any
// such place the measures are infinite (unless the array is empty).
[[nodiscard]] Comparison compare(std::span<const Bf16> result, Output output,
                                 const SampledExpected& expected);
[[nodiscard]] Comparison compare(std::span<const float> result, Output output,
                                 const SampledExpected& expected);

}  // namespace mok::reference
