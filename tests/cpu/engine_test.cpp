// engine_test.cpp: values, bits and memory of every CPU engine that this machine can run.
#include "cpu/engine/engine.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "tile_buffers.hpp"

namespace mok::cpu {
namespace {

constexpr std::uint32_t kSeed = 7001;
constexpr std::array kMajors{Major::kK, Major::kMn};
constexpr std::array kPlacements{Placement::kEndsAtGuard, Placement::kStartsAtGuard,
                                 Placement::kHeap};

// Rows [m0, m0 + m) of a times rows [n0, n0 + n) of b.
struct Part {
  int m0 = 0;
  int n0 = 0;
  int m = 0;
  int n = 0;
};

struct Layout {
  Major a = Major::kK;
  Major b = Major::kK;
  Placement placement = Placement::kEndsAtGuard;
};

class EngineTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const Result<const Engine*> found = find_engine(GetParam());
    if (!found.has_value()) {
      ASSERT_EQ(found.error().code(), Code::kEnvironment) << found.error().message();
      GTEST_SKIP() << found.error().message();
    }
    engine_ = *found;
    ASSERT_EQ(engine_->name, GetParam());
  }

  // k [k0, k1) of the part. The scratch is full of NaN before each call.
  void multiply(const Matrix& a, const Matrix& b, const Part& part, std::int64_t k0,
                std::int64_t k1, const Layout& layout, Accumulate accumulate, TestAcc& acc) {
    const TestOperand a_operand(a, part.m0, part.m, k0, k1 - k0, layout.a, layout.placement);
    const TestOperand b_operand(b, part.n0, part.n, k0, k1 - k0, layout.b, layout.placement);
    std::memset(scratch_->data(), 0xff, kScratchBytes);
    engine_->gemm({.a = a_operand.ref(),
                   .b = b_operand.ref(),
                   .m = part.m,
                   .n = part.n,
                   .k = k1 - k0,
                   .acc = acc.data(),
                   .acc_stride = acc.stride(),
                   .accumulate = accumulate},
                  *scratch_);
    ASSERT_TRUE(acc.gaps_untouched());
  }

  // The whole product as bits, row by row, from one call.
  std::vector<std::uint32_t> whole_bits(const Matrix& a, const Matrix& b) {
    TestAcc acc(a.rows, b.rows, Placement::kEndsAtGuard, kNan);
    multiply(a, b, {0, 0, a.rows, b.rows}, 0, a.k, {}, Accumulate::kOverwrite, acc);
    std::vector<std::uint32_t> bits;
    for (int row = 0; row < a.rows; ++row) {
      for (int col = 0; col < b.rows; ++col) {
        bits.push_back(acc.bits(row, col));
      }
    }
    return bits;
  }

  const Engine* engine_ = nullptr;
  std::unique_ptr<Scratch> scratch_ = std::make_unique<Scratch>();
};

INSTANTIATE_TEST_SUITE_P(All, EngineTest, testing::Values("scalar", "avx2", "avx512_bf16"),
                         [](const auto& param_info) { return std::string{param_info.param}; });

struct Size {
  int m;
  int n;
  std::int64_t k;
};
constexpr std::array kSizes{Size{1, 1, 1},     Size{1, 256, 2},     Size{128, 1, 3},
                            Size{4, 8, 8},     Size{6, 16, 16},     Size{12, 32, 32},
                            Size{7, 17, 31},   Size{13, 33, 33},    Size{11, 47, 65},
                            Size{64, 96, 257}, Size{127, 255, 515}, Size{128, 256, 1025}};

// Products are exact, each step of k rounds once at most: |error| <= k u / (1 - k u) sum |a||b|
// with u = 2^-24, and a subnormal that is taken as zero costs at most 2^-126 a step.
TEST_P(EngineTest, ValuesAreWithinTheBound) {
  for (const Size& size : kSizes) {
    const Matrix a = random_matrix(size.m, size.k, kSeed);
    const Matrix b = random_matrix(size.n, size.k, kSeed + 1);
    for (const Major a_major : kMajors) {
      for (const Major b_major : kMajors) {
        for (const Placement placement : kPlacements) {
          SCOPED_TRACE(testing::Message() << size.m << "x" << size.n << "x" << size.k);
          TestAcc acc(size.m, size.n, placement, kNan);
          multiply(a, b, {0, 0, size.m, size.n}, 0, size.k, {a_major, b_major, placement},
                   Accumulate::kOverwrite, acc);
          // All layouts agree bit for bit (tested below): the sums in double are needed once.
          if (a_major == Major::kMn || b_major == Major::kMn) {
            continue;
          }
          for (int row = 0; row < size.m; ++row) {
            for (int col = 0; col < size.n; ++col) {
              double sum = 0.0;
              double magnitude = 0.0;
              for (std::int64_t k = 0; k < size.k; ++k) {
                const double product = static_cast<double>(to_float(a.at(row, k))) *
                                       static_cast<double>(to_float(b.at(col, k)));
                sum += product;
                magnitude += std::abs(product);
              }
              const double steps = static_cast<double>(size.k);
              const double unit = steps * 0x1p-24;
              const double bound = unit / (1.0 - unit) * magnitude + steps * 0x1p-126;
              ASSERT_LE(std::abs(static_cast<double>(acc.at(row, col)) - sum), bound)
                  << "row " << row << " col " << col;
            }
          }
        }
      }
    }
  }
}

TEST_P(EngineTest, BitsDoNotDependOnSizePlaceOrLayout) {
  std::mt19937 random(kSeed);
  const auto draw = [&random](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  for (const std::int64_t k : {1, 2, 77, 512, 513, 1100}) {
    const Matrix a = random_matrix(kMaxTileRows, k, kSeed + 2);
    const Matrix b = random_matrix(kMaxTileCols, k, kSeed + 3);
    const std::vector<std::uint32_t> whole = whole_bits(a, b);
    for (int trial = 0; trial < 24; ++trial) {
      Part part{};
      part.m0 = draw(0, kMaxTileRows - 1);
      part.n0 = draw(0, kMaxTileCols - 1);
      part.m = trial == 0 ? kMaxTileRows - part.m0 : draw(1, kMaxTileRows - part.m0);
      part.n = trial == 0 ? kMaxTileCols - part.n0 : draw(1, kMaxTileCols - part.n0);
      const Layout layout{trial % 2 == 0 ? Major::kK : Major::kMn,
                          trial / 2 % 2 == 0 ? Major::kMn : Major::kK,
                          kPlacements[static_cast<std::size_t>(trial) % kPlacements.size()]};
      TestAcc acc(part.m, part.n, layout.placement, kNan);
      multiply(a, b, part, 0, k, layout, Accumulate::kOverwrite, acc);
      for (int row = 0; row < part.m; ++row) {
        for (int col = 0; col < part.n; ++col) {
          const auto index =
              static_cast<std::size_t>((part.m0 + row) * kMaxTileCols + part.n0 + col);
          ASSERT_EQ(acc.bits(row, col), whole[index])
              << "k " << k << " trial " << trial << " row " << row << " col " << col;
        }
      }
    }
  }
}

TEST_P(EngineTest, BitsDoNotDependOnSplittingKAtEvenPlaces) {
  const std::int64_t k = 1301;
  const int m = 29;
  const int n = 70;
  const Matrix a = random_matrix(m, k, kSeed + 4);
  const Matrix b = random_matrix(n, k, kSeed + 5);
  const std::vector<std::uint32_t> whole = whole_bits(a, b);
  const std::vector<std::vector<std::int64_t>> splits{
      {64}, {2, 4, 6}, {256, 512, 768, 1024}, {512}, {510, 514}, {1300}, {30, 286, 700, 1298}};
  for (const auto& split : splits) {
    for (const Major major : kMajors) {
      TestAcc acc(m, n, Placement::kEndsAtGuard, kNan);
      std::int64_t from = 0;
      std::vector<std::int64_t> ends = split;
      ends.push_back(k);
      for (const std::int64_t end : ends) {
        multiply(a, b, {0, 0, m, n}, from, end, {major, major, Placement::kEndsAtGuard},
                 from == 0 ? Accumulate::kOverwrite : Accumulate::kContinue, acc);
        from = end;
      }
      for (int row = 0; row < m; ++row) {
        for (int col = 0; col < n; ++col) {
          ASSERT_EQ(acc.bits(row, col), whole[static_cast<std::size_t>(row * n + col)])
              << "first split " << split.front() << " row " << row << " col " << col;
        }
      }
    }
  }
}

// What makes the comparisons of bits above worth something: another order of k shows in them.
TEST_P(EngineTest, AnotherOrderOfKChangesBits) {
  Matrix a = random_matrix(12, 400, kSeed + 6);
  Matrix b = random_matrix(32, 400, kSeed + 7);
  const std::vector<std::uint32_t> forward = whole_bits(a, b);
  for (Matrix* matrix : {&a, &b}) {
    for (int row = 0; row < matrix->rows; ++row) {
      std::reverse(matrix->values.begin() + row * matrix->k,
                   matrix->values.begin() + (row + 1) * matrix->k);
    }
  }
  EXPECT_NE(forward, whole_bits(a, b));
}

TEST_P(EngineTest, NanAndInfStayInTheirRowAndColumn) {
  const int m = 30;
  const int n = 75;
  for (const std::int64_t k : {1, 33, 64, 600}) {
    const Matrix clean_a = random_matrix(m, k, kSeed + 8);
    const Matrix clean_b = random_matrix(n, k, kSeed + 9);
    const std::vector<std::uint32_t> clean = whole_bits(clean_a, clean_b);
    for (const float bad : {kNan, std::numeric_limits<float>::infinity()}) {
      Matrix a = clean_a;
      Matrix b = clean_b;
      a.at(13, k - 1) = to_bf16(bad);
      b.at(34, k / 2) = to_bf16(bad);
      const std::vector<std::uint32_t> dirty = whole_bits(a, b);
      for (int row = 0; row < m; ++row) {
        for (int col = 0; col < n; ++col) {
          const auto index = static_cast<std::size_t>(row * n + col);
          if (row != 13 && col != 34) {
            ASSERT_EQ(dirty[index], clean[index]) << "row " << row << " col " << col;
          } else {
            ASSERT_FALSE(std::isfinite(std::bit_cast<float>(dirty[index])))
                << "row " << row << " col " << col;
          }
        }
      }
    }
  }
}

TEST_P(EngineTest, NoKMeansZerosOrNothing) {
  const Matrix none{5, 0, {}};
  for (const Major major : kMajors) {
    TestAcc acc(5, 5, Placement::kEndsAtGuard, kNan);
    multiply(none, none, {0, 0, 5, 5}, 0, 0, {major, major, Placement::kEndsAtGuard},
             Accumulate::kOverwrite, acc);
    TestAcc kept(5, 5, Placement::kEndsAtGuard, 1.5F);
    multiply(none, none, {0, 0, 5, 5}, 0, 0, {major, major, Placement::kEndsAtGuard},
             Accumulate::kContinue, kept);
    for (int i = 0; i < 25; ++i) {
      EXPECT_EQ(acc.bits(i / 5, i % 5), 0U);
      EXPECT_EQ(kept.at(i / 5, i % 5), 1.5F);
    }
  }
}

TEST_P(EngineTest, NoRowsOrColumnsTouchNothing) {
  const Matrix matrix = random_matrix(3, 10, kSeed + 10);
  for (const Accumulate accumulate : {Accumulate::kOverwrite, Accumulate::kContinue}) {
    TestAcc acc(0, 0, Placement::kEndsAtGuard, kNan);
    multiply(matrix, matrix, {0, 0, 0, 3}, 0, 10, {}, accumulate, acc);
    multiply(matrix, matrix, {0, 0, 3, 0}, 0, 10, {}, accumulate, acc);
    multiply(matrix, matrix, {0, 0, 0, 0}, 0, 0, {}, accumulate, acc);
  }
}

// Sums that tell the documented order from any other: 2^24 + 1 rounds back to 2^24.
TEST_P(EngineTest, TheOrderOfAdditionsIsTheDocumentedOne) {
  Matrix a{1, 2, {to_bf16(1.0F), to_bf16(-0x1p24F)}};
  const Matrix ones{1, 2, {to_bf16(1.0F), to_bf16(1.0F)}};
  TestAcc acc(1, 1, Placement::kEndsAtGuard, 0x1p24F);
  multiply(a, ones, {0, 0, 1, 1}, 0, 2, {}, Accumulate::kContinue, acc);
  const bool odd_first = engine_->kind == EngineKind::kAvx512Bf16;
  EXPECT_EQ(acc.at(0, 0), odd_first ? 1.0F : 0.0F);

  std::swap(a.at(0, 0), a.at(0, 1));
  TestAcc swapped(1, 1, Placement::kEndsAtGuard, 0x1p24F);
  multiply(a, ones, {0, 0, 1, 1}, 0, 2, {}, Accumulate::kContinue, swapped);
  EXPECT_EQ(swapped.at(0, 0), odd_first ? 0.0F : 1.0F);
}

TEST_P(EngineTest, SubnormalsAreKeptOrTakenAsZeroAsDocumented) {
  const bool flushes = engine_->kind == EngineKind::kAvx512Bf16;
  const auto product = [this](float left, float right) {
    TestAcc acc(1, 1, Placement::kEndsAtGuard, kNan);
    multiply({1, 1, {to_bf16(left)}}, {1, 1, {to_bf16(right)}}, {0, 0, 1, 1}, 0, 1, {},
             Accumulate::kOverwrite, acc);
    return acc.at(0, 0);
  };
  EXPECT_EQ(product(0x1p-130F, 0x1p10F), flushes ? 0.0F : 0x1p-120F);   // subnormal input
  EXPECT_EQ(product(0x1p-100F, 0x1p-30F), flushes ? 0.0F : 0x1p-130F);  // subnormal result
  EXPECT_EQ(product(0x1p-100F, 0x1p-26F), 0x1p-126F);                   // smallest normal
}

TEST(EnginesTest, ScalarAndAvx2AgreeBitForBit) {
  const Result<const Engine*> scalar = find_engine("scalar");
  const Result<const Engine*> avx2 = find_engine("avx2");
  ASSERT_TRUE(scalar.has_value());
  if (!avx2.has_value()) {
    GTEST_SKIP() << avx2.error().message();
  }
  const auto scratch = std::make_unique<Scratch>();
  for (const Size& size : kSizes) {
    const Matrix a = random_matrix(size.m, size.k, kSeed + 11);
    const Matrix b = random_matrix(size.n, size.k, kSeed + 12);
    const TestOperand a_operand(a, 0, size.m, 0, size.k, Major::kK, Placement::kHeap);
    const TestOperand b_operand(b, 0, size.n, 0, size.k, Major::kMn, Placement::kHeap);
    const TestAcc scalar_acc(size.m, size.n, Placement::kHeap, 0.25F);
    const TestAcc avx2_acc(size.m, size.n, Placement::kHeap, 0.25F);
    GemmCall call{.a = a_operand.ref(),
                  .b = b_operand.ref(),
                  .m = size.m,
                  .n = size.n,
                  .k = size.k,
                  .acc = scalar_acc.data(),
                  .acc_stride = scalar_acc.stride(),
                  .accumulate = Accumulate::kContinue};
    (*scalar)->gemm(call, *scratch);
    call.acc = avx2_acc.data();
    (*avx2)->gemm(call, *scratch);
    for (int row = 0; row < size.m; ++row) {
      for (int col = 0; col < size.n; ++col) {
        ASSERT_EQ(scalar_acc.bits(row, col), avx2_acc.bits(row, col))
            << size.m << "x" << size.n << "x" << size.k << " row " << row << " col " << col;
      }
    }
  }
}

TEST(FindEngineTest, AutoIsTheBestThatRuns) {
  const Result<const Engine*> best = find_engine("auto");
  ASSERT_TRUE(best.has_value());
  for (const char* name : {"avx512_bf16", "avx2", "scalar"}) {
    const Result<const Engine*> engine = find_engine(name);
    if (engine.has_value()) {
      EXPECT_EQ(*engine, *best);
      return;
    }
  }
  FAIL() << "not even the scalar engine runs";
}

TEST(FindEngineTest, UnknownNamesGetTheNearestLegalOne) {
  const auto message = [](const char* name) {
    const Result<const Engine*> engine = find_engine(name);
    return engine.has_value() ? std::string{"found"} : engine.error().message();
  };
  const std::string rule = ": must be auto, scalar, avx2 or avx512_bf16; nearest is ";
  EXPECT_EQ(message("avx3"), "bad_argument: engine = avx3" + rule + "avx2");
  EXPECT_EQ(message("avx512"), "bad_argument: engine = avx512" + rule + "avx512_bf16");
  EXPECT_EQ(message("Scalar"), "bad_argument: engine = Scalar" + rule + "scalar");
  EXPECT_EQ(message("aut"), "bad_argument: engine = aut" + rule + "auto");
}

}  // namespace
}  // namespace mok::cpu
