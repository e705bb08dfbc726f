// portable_math.hpp: log, exp, sine and cosine with the same bits on every machine and library.
//
// Only IEEE additions, multiplications, divisions and conversions, in a written order: drawn data
// must not depend on the C library. Accurate to a few units in the last place of binary32 over the
// ranges stated. Needs -ffp-contract=off like the whole project.
#pragma once

#include <bit>
#include <cstdint>

namespace mok::io {

inline constexpr float kLn2 = 0.693147180559945309F;

// Natural logarithm of a positive normal number.
inline float portable_log(float x) {
  // x = m 2^e with m in [sqrt(1/2), sqrt(2)); ln m = 2 artanh(s), s = (m - 1)/(m + 1), |s| < 0.172.
  constexpr std::int32_t kSqrtHalfBits = 0x3f3504f3;
  const auto bits = std::bit_cast<std::int32_t>(x);
  const std::int32_t exponent = (bits - kSqrtHalfBits) >> 23;
  const auto m = std::bit_cast<float>(bits - exponent * (1 << 23));
  const float s = (m - 1.0F) / (m + 1.0F);
  const float q = s * s;
  const float series =
      q * (1.0F / 3.0F + q * (1.0F / 5.0F + q * (1.0F / 7.0F + q * (1.0F / 9.0F))));
  return static_cast<float>(exponent) * kLn2 + 2.0F * (s + s * series);
}

// e^x for x <= 0; 0 where the result would be below the smallest normal number. Not for NaN.
inline float portable_exp(float x) {
  if (x < -87.0F) {
    return 0.0F;
  }
  // x = n ln 2 + r with |r| <= ln(2)/2; ln 2 in two parts, the first short enough that n times it
  // is exact.
  constexpr float kLog2E = 1.44269504088896341F;
  constexpr float kLn2High = 0.693359375F;
  constexpr float kLn2Low = -2.12194440054690583e-4F;
  const auto n = static_cast<std::int32_t>(x * kLog2E - 0.5F);  // towards zero: x <= 0
  const auto n_real = static_cast<float>(n);
  const float r = (x - n_real * kLn2High) - n_real * kLn2Low;
  const float tail =
      r * r *
      (1.0F / 2.0F +
       r * (1.0F / 6.0F +
            r * (1.0F / 24.0F + r * (1.0F / 120.0F + r * (1.0F / 720.0F + r * (1.0F / 5040.0F))))));
  return (1.0F + (r + tail)) * std::bit_cast<float>((n + 127) * (1 << 23));
}

// For |t| <= pi/4.
inline float portable_sin(float t) {
  const float q = t * t;
  return t - t * (q * (1.0F / 6.0F -
                       q * (1.0F / 120.0F - q * (1.0F / 5040.0F - q * (1.0F / 362880.0F)))));
}
inline float portable_cos(float t) {
  const float q = t * t;
  return 1.0F -
         q * (1.0F / 2.0F -
              q * (1.0F / 24.0F - q * (1.0F / 720.0F - q * (1.0F / 40320.0F - q / 3628800.0F))));
}

}  // namespace mok::io
