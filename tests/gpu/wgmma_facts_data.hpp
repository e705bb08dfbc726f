// wgmma_facts_data.hpp: input matrices by seed, and the product in double with its error measures.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <string_view>
#include <vector>

#include "core/bf16.hpp"

namespace mok::gpu_test {

using Matrix = std::vector<Bf16>;  // [rows, K] row-major

enum class DataSet : std::uint8_t { kNormal, kPositive, kWide, kIntegers };

inline std::string_view name_of(DataSet data) {
  switch (data) {
    case DataSet::kNormal: return "normal";
    case DataSet::kPositive: return "positive";
    case DataSet::kWide: return "wide";
    case DataSet::kIntegers: return "integers";
  }
  return "unknown";
}

inline float draw(DataSet data, std::mt19937_64& random) {
  std::normal_distribution<float> normal;
  switch (data) {
    case DataSet::kNormal: return normal(random);
    case DataSet::kPositive: return std::fabs(normal(random));
    case DataSet::kWide: {  // products span 2^-24 .. 2^26: most bits are lost to alignment
      const int exponent = std::uniform_int_distribution<int>(-12, 12)(random);
      return std::ldexp(normal(random), exponent);
    }
    case DataSet::kIntegers:  // |sum| <= 8192 * 64 < 2^24: exact in fp32 in any order
      return static_cast<float>(std::uniform_int_distribution<int>(-8, 8)(random));
  }
  return 0.0F;
}

inline Matrix random_matrix(DataSet data, int rows, int k, std::mt19937_64& random) {
  Matrix matrix(static_cast<std::size_t>(rows) * static_cast<std::size_t>(k));
  std::generate(matrix.begin(), matrix.end(), [&] { return to_bf16(draw(data, random)); });
  return matrix;
}

inline std::vector<int> random_permutation(int count, std::mt19937_64& random) {
  std::vector<int> permutation(static_cast<std::size_t>(count));
  std::iota(permutation.begin(), permutation.end(), 0);
  std::shuffle(permutation.begin(), permutation.end(), random);
  return permutation;
}

// Row i of the result is row permutation[i] of `matrix`.
inline Matrix permuted_rows(const Matrix& matrix, const std::vector<int>& permutation) {
  const std::size_t k = matrix.size() / permutation.size();
  Matrix result(matrix.size());
  for (std::size_t row = 0; row < permutation.size(); ++row) {
    const auto source = static_cast<std::size_t>(permutation[row]);
    std::copy_n(&matrix[source * k], k, &result[row * k]);
  }
  return result;
}

// The same sum in another order: groups of `group` along K, last first.
inline Matrix reversed_k_groups(const Matrix& matrix, std::size_t k, std::size_t group) {
  Matrix result(matrix.size());
  for (std::size_t i = 0; i < matrix.size(); ++i) {
    const std::size_t column = i % k;
    const std::size_t source = (k / group - 1 - column / group) * group + column % group;
    result[i] = matrix[i - column + source];
  }
  return result;
}

struct Element {
  double value = 0;      // sum of a * b
  double magnitude = 0;  // sum of |a| |b|
  double running = 0;    // sum over k16 steps of the magnitude so far
};

// All products of two BF16 are exact in double; the sum errs by less than 2^-40 of its magnitude.
inline std::vector<Element> reference_product(const Matrix& a, const Matrix& b, int k) {
  const auto length = static_cast<std::size_t>(k);
  const std::vector<double> wide_a = [&] {
    std::vector<double> wide(a.size());
    std::transform(a.begin(), a.end(), wide.begin(), [](Bf16 x) { return to_float(x); });
    return wide;
  }();
  std::vector<double> wide_b(b.size());
  std::transform(b.begin(), b.end(), wide_b.begin(), [](Bf16 x) { return to_float(x); });
  std::vector<Element> result;
  result.reserve((a.size() / length) * (b.size() / length));
  for (std::size_t row = 0; row < a.size(); row += length) {
    for (std::size_t column = 0; column < b.size(); column += length) {
      Element element;
      for (std::size_t i = 0; i < length; ++i) {
        const double product = wide_a[row + i] * wide_b[column + i];
        element.value += product;
        element.magnitude += std::fabs(product);
        if (i % 16 == 15) {
          element.running += element.magnitude;
        }
      }
      result.push_back(element);
    }
  }
  return result;
}

// Error of a computed product in units of 2^-24 a k16 step: of the whole magnitude, and of the
// magnitude so far. "Low" counts only how far results lie below the exact value.
struct ErrorSummary {
  std::size_t outside_bound = 0;  // |error| > steps * 2^-23 * magnitude, or NaN
  std::size_t above_exact = 0;    // error > 0, beyond what the reference itself may err
  double mean_low_factor = 0;
  double mean_factor = 0;
  double max_factor = 0;
  double mean_running_factor = 0;
  double max_running_factor = 0;
};

inline ErrorSummary summarise_errors(const std::vector<float>& computed,
                                     const std::vector<Element>& exact, int num_steps) {
  ErrorSummary summary;
  for (std::size_t i = 0; i < computed.size(); ++i) {
    const double error = static_cast<double>(computed[i]) - exact[i].value;
    const double unit = std::ldexp(exact[i].magnitude, -24) * num_steps;
    const double running_unit = std::ldexp(exact[i].running, -24);
    summary.outside_bound += std::fabs(error) <= 2 * unit ? 0U : 1U;  // NaN counts
    summary.above_exact += error <= std::ldexp(exact[i].magnitude, -40) ? 0U : 1U;
    const double factor = std::fabs(error) / unit;
    const double running_factor = std::fabs(error) / running_unit;
    summary.mean_low_factor -= error / unit;
    summary.mean_factor += factor;
    summary.mean_running_factor += running_factor;
    summary.max_factor = std::max(summary.max_factor, factor);
    summary.max_running_factor = std::max(summary.max_running_factor, running_factor);
  }
  const auto count = static_cast<double>(computed.size());
  summary.mean_low_factor /= count;
  summary.mean_factor /= count;
  summary.mean_running_factor /= count;
  return summary;
}

}  // namespace mok::gpu_test
