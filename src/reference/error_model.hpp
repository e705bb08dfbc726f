// error_model.hpp: (value, error) arithmetic and the rounding points of an implementation.
//
// `value` is the exact real-number result (evaluated in double), `error` a bound on how far a
// correct implementation's number can lie from it. Errors are propagated componentwise:
//
//   product            |ab - AB| <= |a| eb + |b| ea + ea eb
//   sum of K products  the sum of these + gamma * sum (|a|+ea)(|b|+eb), gamma from the model below.
//                      One operand of each matrix product is exact (an input), so this is a single
//                      product |a| * (gamma (|b|+eb) + eb): see Operand in multiply.hpp
//   rounding to bf16   + half a unit in the last place of |v|+e. bf16 has 8 significant bits: the
//   unit
//                      of [1,2) is 2^-7, so half of it is 2^-8 (kUnitBf16) times the power of two
//                      below |v|+e. Below 2^-126 the spacing is 2^-133, so the half never goes
//                      under 2^-134; machines that flush subnormals err by up to 2^-126 there, once
//                      when they write the number and once when they read it
//   fp32 operation     + 2^-24 (|v|+e) (+ the smallest step or the flush threshold)
//   f(z), f smooth     |f(z+d) - f(z)| <= e min(sup|f'|, |f'(z)| + sup|f''| e / 2)
//   clamp              1-Lipschitz; exact where the whole interval is clamped. The gradient jumps
//   at
//                      the limit: where the interval contains it, the bound covers both answers
//   reference itself   double arithmetic: K 2^-52 is added to each gamma
//   overflow           |v|+e beyond the largest bf16 or fp32: the bound is infinite (not checkable)
//
// Named rounding points:
//   point                  arithmetic before it                                     rounding
//   gate, up               fp32 sum, K = H                                          bf16
//   hidden (h)             fp32 silu(gate)*up from the rounded gate and up          bf16, for y
//   only y row                  fp32 sum, K = I, of the rounded h                        bf16
//   shared scale (s)       fp32 sum, K = H; fp32 sigmoid                            none
//   y                      fp32 s*shared, then + w*row in slot order                bf16
//   dh                     fp32 sum, K = H                                          none
//   d_router, ds           fp32 sum, K = I, of dh times the unrounded fp32 h        none (fp32)
//   d_gate, d_up of a row  fp32 w*dh*up*silu'(gate), w*dh*silu(gate)                bf16
//   w*h                    fp32, of the unrounded h                                 bf16
//   dx row                 fp32 sum, K = 2I; the shared expert's row too            bf16
//   dx                     fp32 sum of the rows and of dz*g, dz = ds*s*(1-s)        bf16
//   weight gradients       fp32 sum in segments of 8192 rows, segments added        bf16, none or
//                                                                                   one fp32
//                                                                                   addition
//   shared gradients       the same on each rank; the ranks' arrays added in fp32   none
//   output gate's dg       fp32 sum of dz*x over the tokens, then over the ranks    none
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "reference/reference.hpp"

namespace mok::reference {

inline constexpr double kUnitBf16 = 0x1p-8;   // half a unit in the last place, relative to 2^e
inline constexpr double kUnitFp32 = 0x1p-24;  // likewise
inline constexpr double kSmallestNormal = 0x1p-126;  // of bf16 and fp32 alike
inline constexpr std::int64_t kSegmentRows = 8192;   // weight gradients: rows of one fp32 sum

// Truncation of a tensor core, per step of 16 products, in units of 2^-23 times the running sum of
// magnitudes. Measured on all-positive data (K = 8192): low by 1.16 * 2^-24 of the final sum a
// step, that is 1.16 * 2^-23 of the running sum on average. A truncation is up to twice its
// average: 2.3. The next power of two leaves room for other data.
inline constexpr double kTensorCoreStep = 4 * 0x1p-23;

// sup |f'| or sup |f''| used by the Lipschitz bounds (a test checks each on a grid).
inline constexpr double kMaxSigmoidSlope = 0.25;
inline constexpr double kMaxSigmoidCurve = 0.1;  // 0.0962...
inline constexpr double kMaxSiluSlope = 1.1;     // 1.0998...
inline constexpr double kMaxSiluCurve = 0.5;     // at 0
inline constexpr double kMaxSiluThird = 0.32;    // 0.308...

struct Approx {
  double value = 0.0;
  double error = 0.0;
};

inline double magnitude(Approx a) {
  return std::abs(a.value) + a.error;
}

inline Approx multiply_exact(Approx a, Approx b) {
  return {a.value * b.value,
          std::abs(a.value) * b.error + std::abs(b.value) * a.error + a.error * b.error};
}

// The largest power of two that is <= m (m >= 0; 0 for subnormal doubles).
inline double binade(double m) {
  return std::bit_cast<double>(std::bit_cast<std::uint64_t>(m) & 0x7ff0000000000000ULL);
}

class ErrorModel {
 public:
  explicit ErrorModel(AccumulationModel accumulation)
      : accumulation_(accumulation),
        flushes_(accumulation != AccumulationModel::kRoundToNearest),
        tiny_(flushes_ ? kSmallestNormal : 0x1p-149),
        bf16_floor_(flushes_ ? 2 * kSmallestNormal : 0x1p-134) {}

  // gamma_n = n u / (1 - n u): n roundings to nearest in fp32, one after another.
  [[nodiscard]] static double fp32_factor(std::int64_t num_roundings) {
    const double nu = static_cast<double>(num_roundings) * (kUnitFp32 + 0x1p-52);
    return nu / (1.0 - nu);
  }

  // gamma of a matrix element with K products of bf16 numbers. Such products are exact in fp32.
  [[nodiscard]] double sum_factor(std::int64_t num_products) const {
    switch (accumulation_) {
      case AccumulationModel::kRoundToNearest: return fp32_factor(num_products);
      // A pair instruction rounds once or twice a pair; two fused steps are the worst reading of
      // its documentation: K roundings. Two more for the addition of partial accumulators.
      case AccumulationModel::kPairDot: return fp32_factor(num_products + 2);
      case AccumulationModel::kTensorCore: {
        const std::int64_t num_steps = (num_products + 15) / 16;
        const double total = static_cast<double>(num_steps) * kTensorCoreStep +
                             static_cast<double>(num_products) * 0x1p-52;
        return total / (1.0 - total) + fp32_factor(1);
      }
    }
    return std::numeric_limits<double>::infinity();
  }

  // gamma of a weight gradient: segments of at most 8192 rows, then fp32 additions of the segments
  // and `num_more_additions` after that.
  [[nodiscard]] double gradient_factor(std::int64_t num_rows,
                                       std::int64_t num_more_additions) const {
    const std::int64_t num_segments = (num_rows + kSegmentRows - 1) / kSegmentRows;
    const double inside = sum_factor(num_rows < kSegmentRows ? num_rows : kSegmentRows);
    const double outside = fp32_factor(num_segments + num_more_additions);
    return inside + outside + inside * outside;
  }

  // Absolute error of `num_operations` fp32 operations whose result may be subnormal.
  [[nodiscard]] double underflow(std::int64_t num_operations) const {
    return static_cast<double>(num_operations) * tiny_;
  }

  // |v| of an exact operand for the bound's product, enlarged so that the factor applied to the sum
  // also covers the loss of the whole operand where subnormals are read as 0.
  [[nodiscard]] double exact_operand(double v, double factor) const {
    const double size = std::abs(v);
    return flushes_ && size < kSmallestNormal ? size * (1.0 + 1.0 / factor) : size;
  }

  [[nodiscard]] Approx round_bf16(Approx a) const {
    const double m = magnitude(a) * (1.0 + 0x1p-50);
    if (m == 0.0) {
      return a;  // an exact zero stays one
    }
    const double half = kUnitBf16 * binade(m);
    const double error = a.error + (half < bf16_floor_ ? bf16_floor_ : half);
    return {a.value, m < 0x1.ffp127 ? error : not_checkable(m)};
  }

  [[nodiscard]] Approx round_fp32(Approx a) const {
    const double m = magnitude(a);
    if (m == 0.0) {
      return a;
    }
    return {a.value, m < 0x1.ffffffp127 ? a.error + kUnitFp32 * m + tiny_ : not_checkable(m)};
  }

  // fp32 product of two numbers.
  [[nodiscard]] Approx multiply(Approx a, Approx b) const {
    return round_fp32(multiply_exact(a, b));
  }

  // fp32 1/(1+exp(-z)). exp: 4 units of 2^-24 for the function itself and 2|z| for the rounding of
  // its argument (z*log2(e) in fp32); these reach s damped by 1-s. The addition and the division
  // (or an approximate reciprocal) add 4 more units; far left s may be flushed.
  [[nodiscard]] Approx sigmoid(Approx z) const {
    const double s = 1.0 / (1.0 + std::exp(-z.value));
    const double slope = lipschitz(s * (1.0 - s), kMaxSigmoidCurve, kMaxSigmoidSlope, z.error);
    return {s, slope * z.error + s * sigmoid_rounding(z.value, s) + kSmallestNormal};
  }

  // fp32 z*sigmoid(z).
  [[nodiscard]] Approx silu(Approx z) const {
    const double s = 1.0 / (1.0 + std::exp(-z.value));
    const double slope =
        lipschitz(std::abs(s * (1.0 + z.value * (1.0 - s))), kMaxSiluCurve, kMaxSiluSlope, z.error);
    const double size = std::abs(z.value) + z.error;
    return {z.value * s, slope * z.error +
                             size * (s + kMaxSigmoidSlope * z.error) *
                                 (sigmoid_rounding(z.value, s) + kUnitFp32) +
                             size * kSmallestNormal};
  }

  // fp32 silu'(z) = s (1 + z (1 - s)). s enters three times, each with the relative error r of the
  // sigmoid, and the difference and the sum each round once: s (r |1+z(1-s)| + |z| s r +
  // 4u(1+|z|)).
  [[nodiscard]] Approx silu_slope(Approx z) const {
    const double s = 1.0 / (1.0 + std::exp(-z.value));
    const double inner = 1.0 + z.value * (1.0 - s);
    const double curve = std::abs(s * (1.0 - s) * (2.0 + z.value * (1.0 - 2.0 * s)));
    const double slope = lipschitz(curve, kMaxSiluThird, kMaxSiluCurve, z.error);
    const double size = std::abs(z.value) + z.error;
    const double r = sigmoid_rounding(z.value, s);
    const double rounding = r * std::abs(inner) + size * s * r + 4.0 * kUnitFp32 * (1.0 + size);
    return {s * inner, slope * z.error + (s + kMaxSigmoidSlope * z.error) * rounding +
                           (1.0 + size) * kSmallestNormal};
  }

 private:
  static double lipschitz(double slope_here, double max_curve, double max_slope, double error) {
    const double local = slope_here + 0.5 * max_curve * error;
    return local > max_slope ? max_slope : local;
  }
  static double sigmoid_rounding(double z, double s) {
    return ((4.0 + 2.0 * std::abs(z)) * (1.0 - s) + 4.0) * kUnitFp32;
  }
  static double not_checkable(double m) {
    return m != m ? m : std::numeric_limits<double>::infinity();
  }

  AccumulationModel accumulation_;
  bool flushes_;
  double tiny_;
  double bf16_floor_;
};

// A number limited to [-limit, limit] or (-inf, limit], and whether its gradient passes.
struct Clamped {
  Approx limited;
  enum class Gradient : std::uint8_t { kPasses, kStopped, kEither } gradient = Gradient::kPasses;
  bool reference_passes = true;  // the exact answer; matters for kEither. At the limit: passes
};

inline Clamped clamp_above(Approx a, double limit) {
  if (a.value - a.error > limit) {
    return {{limit, 0.0}, Clamped::Gradient::kStopped, false};
  }
  if (a.value + a.error <= limit) {
    return {a, Clamped::Gradient::kPasses, true};
  }
  const bool stopped = a.value > limit;  // false for NaN, which must stay NaN
  return {{stopped ? limit : a.value, a.error}, Clamped::Gradient::kEither, !stopped};
}

inline Clamped clamp_both(Approx a, double limit) {
  if (a.value >= 0.0) {
    return clamp_above(a, limit);
  }
  Clamped mirrored = clamp_above({-a.value, a.error}, limit);
  mirrored.limited.value = -mirrored.limited.value;
  return mirrored;
}

// The gradient behind a clamp.
inline Approx pass_gradient(const Clamped& clamped, Approx gradient) {
  switch (clamped.gradient) {
    case Clamped::Gradient::kPasses: return gradient;
    case Clamped::Gradient::kStopped: return {0.0, 0.0};
    case Clamped::Gradient::kEither: break;
  }
  return {clamped.reference_passes ? gradient.value : 0.0, magnitude(gradient)};
}

}  // namespace mok::reference
