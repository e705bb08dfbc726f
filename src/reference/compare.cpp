// compare.cpp: error measures of an array against the reference.
#include "reference/compare.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace mok::reference {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double as_double(Bf16 v) {
  return static_cast<double>(to_float(v));
}
double as_double(float v) {
  return static_cast<double>(v);
}

double ratio(double error, double bound) {
  if (std::isnan(error)) {
    return kInfinity;
  }
  if (error == 0.0) {
    return 0.0;
  }
  return bound > 0.0 ? error / bound : kInfinity;
}

class Measure {
 public:
  void add(std::int64_t index, double result, double value, double bound) {
    if (!std::isfinite(value) || !std::isfinite(bound)) {
      ++comparison_.num_unchecked;
      return;
    }
    ++comparison_.num_compared;
    const double error = std::isnan(result) ? kInfinity : std::abs(result - value);
    comparison_.max_abs_err = std::max(comparison_.max_abs_err, error);
    comparison_.max_abs_reference = std::max(comparison_.max_abs_reference, std::abs(value));
    const double here = ratio(error, bound);
    if (here > comparison_.error_over_bound || comparison_.worst_index < 0) {
      comparison_.error_over_bound = here;
      comparison_.worst_index = index;
      comparison_.worst_result = result;
      comparison_.worst_reference = value;
      comparison_.worst_bound = bound;
    }
  }

  [[nodiscard]] bool is_empty() const {
    return comparison_.num_compared == 0 && comparison_.num_unchecked == 0;
  }

  [[nodiscard]] Comparison finish() {
    comparison_.rel_err = ratio(comparison_.max_abs_err, comparison_.max_abs_reference);
    return comparison_;
  }

 private:
  Comparison comparison_;
};

Comparison wrong_size() {
  Comparison comparison;
  comparison.max_abs_err = kInfinity;
  comparison.rel_err = kInfinity;
  comparison.error_over_bound = kInfinity;
  return comparison;
}

template <class T>
Comparison compare_all(std::span<const T> result, const Expected::Array& expected) {
  if (result.size() != expected.value.size()) {
    return wrong_size();
  }
  Measure measure;
  for (std::size_t i = 0; i < result.size(); ++i) {
    measure.add(static_cast<std::int64_t>(i), as_double(result[i]), expected.value[i],
                expected.bound[i]);
  }
  return measure.finish();
}

template <class T>
Comparison compare_sampled(std::span<const T> result, Output output,
                           const SampledExpected& expected) {
  Measure measure;
  for (const SampledValue& sampled : expected.values) {
    if (sampled.output != output) {
      continue;
    }
    const auto at = static_cast<std::size_t>(sampled.index);
    if (at >= result.size()) {
      return wrong_size();
    }
    measure.add(sampled.index, as_double(result[at]), sampled.value, sampled.bound);
  }
  // A comparison that looked at nothing must not pass for one that found nothing.
  return measure.is_empty() && !result.empty() ? wrong_size() : measure.finish();
}

}  // namespace

Comparison compare(std::span<const Bf16> result, const Expected::Array& expected) {
  return compare_all(result, expected);
}
Comparison compare(std::span<const float> result, const Expected::Array& expected) {
  return compare_all(result, expected);
}
Comparison compare(std::span<const Bf16> result, Output output, const SampledExpected& expected) {
  return compare_sampled(result, output, expected);
}
Comparison compare(std::span<const float> result, Output output, const SampledExpected& expected) {
  return compare_sampled(result, output, expected);
}

}  // namespace mok::reference
