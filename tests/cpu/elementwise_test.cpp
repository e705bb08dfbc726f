// elementwise_test.cpp: row helpers against the one-value definitions, any length and alignment.
#include "cpu/engine/elementwise.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include <bit>
#include <cmath>
#include <vector>

#include "tile_buffers.hpp"

namespace mok::cpu {
namespace {

std::uint32_t bits_of(float value) {
  return std::bit_cast<std::uint32_t>(value);
}

// Every upper half with the low halves around the rounding borders: NaN, Inf and ties included.
TEST(ElementwiseTest, RowToBf16IsToBf16OnEveryPattern) {
  constexpr std::array<std::uint32_t, 8> kLowHalves{0,      1,      0x7fff, 0x8000,
                                                    0x8001, 0xc000, 0xfffe, 0xffff};
  for (const std::uint32_t low : kLowHalves) {
    std::vector<float> in;
    for (std::uint32_t high = 0; high < 0x10000U; ++high) {
      in.push_back(std::bit_cast<float>((high << 16) | low));
    }
    std::vector<Bf16> out(in.size());
    row_to_bf16(in.data(), out.data(), static_cast<std::int64_t>(in.size()));
    for (std::size_t i = 0; i < in.size(); ++i) {
      ASSERT_EQ(out[i].bits, to_bf16(in[i]).bits) << std::hex << bits_of(in[i]);
    }
  }
}

TEST(ElementwiseTest, EveryLengthAndAlignmentStaysInItsRow) {
  const Matrix values = random_matrix(1, 64, 42);
  for (const Placement placement : {Placement::kEndsAtGuard, Placement::kStartsAtGuard}) {
    for (std::int64_t num = 0; num <= 40; ++num) {
      const TestArray<Bf16> y(num, placement, Bf16{});
      const TestArray<float> wide(num, placement, kNan);
      const TestArray<Bf16> narrow(num, placement, Bf16{});
      std::copy_n(values.values.begin(), num, y.data());
      std::transform(y.data(), y.data() + num, wide.data(), [](Bf16 v) { return to_float(v); });
      row_to_bf16(wide.data(), narrow.data(), num);
      axpy_bf16(-2.5F, y.data(), wide.data(), num);
      for (std::int64_t i = 0; i < num; ++i) {
        const float value = to_float(values.at(0, i));
        ASSERT_EQ(narrow.data()[i], values.at(0, i));
        ASSERT_EQ(wide.data()[i], value + -2.5F * value);
      }
    }
  }
}

TEST(ElementwiseTest, AxpyRoundsTheProductAndThenTheSum) {
  // 1.0000001 * 1.0078125 is no fp32 value: an fma would keep what the first rounding drops.
  const float w = 1.0F + 0x1p-23F;
  const std::vector<Bf16> y(37, to_bf16(1.0F + 0x1p-7F));
  volatile float product = w * to_float(y[0]);
  const float start = -product;
  ASSERT_NE(std::fma(w, to_float(y[0]), start), 0.0F);
  std::vector<float> out(y.size(), start);
  axpy_bf16(w, y.data(), out.data(), static_cast<std::int64_t>(out.size()));
  for (const float value : out) {
    EXPECT_EQ(bits_of(value), 0U);
  }
}

}  // namespace
}  // namespace mok::cpu
