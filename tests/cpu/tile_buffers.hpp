// tile_buffers.hpp: operands and sums for engine tests, in memory that ends where the tile ends.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <vector>

#include "cpu/engine/engine.hpp"

namespace mok::cpu {

inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Where an array lies: next to a page that must not be touched, or in a heap block of its exact
// size, for AddressSanitizer.
enum class Placement { kEndsAtGuard, kStartsAtGuard, kHeap };

template <class T>
class TestArray {
 public:
  TestArray(std::int64_t count, Placement placement, T fill) {
    const std::size_t num_bytes = static_cast<std::size_t>(count) * sizeof(T);
    if (placement == Placement::kHeap) {
      heap_ = std::make_unique<T[]>(static_cast<std::size_t>(count));
      data_ = heap_.get();
    } else {
      const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
      const std::size_t inner = (num_bytes + page - 1) / page * page;
      mapped_bytes_ = inner + 2 * page;
      void* const mapped =
          mmap(nullptr, mapped_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (mapped == MAP_FAILED) {
        std::abort();
      }
      mapped_ = static_cast<char*>(mapped);
      if (inner > 0 && mprotect(mapped_ + page, inner, PROT_READ | PROT_WRITE) != 0) {
        std::abort();
      }
      const std::size_t offset = placement == Placement::kEndsAtGuard ? inner - num_bytes : 0;
      data_ = reinterpret_cast<T*>(mapped_ + page + offset);
    }
    for (std::int64_t i = 0; i < count; ++i) {
      data_[i] = fill;
    }
  }
  TestArray(const TestArray&) = delete;
  TestArray& operator=(const TestArray&) = delete;
  ~TestArray() {
    if (mapped_ != nullptr) {
      munmap(mapped_, mapped_bytes_);
    }
  }

  [[nodiscard]] T* data() const { return data_; }

 private:
  std::unique_ptr<T[]> heap_;
  char* mapped_ = nullptr;
  std::size_t mapped_bytes_ = 0;
  T* data_ = nullptr;
};

// A plain matrix of rows x k, the source of truth of a test.
struct Matrix {
  int rows = 0;
  std::int64_t k = 0;
  std::vector<Bf16> values;

  [[nodiscard]] Bf16& at(int row, std::int64_t col) {
    return values[static_cast<std::size_t>(row * k + col)];
  }
  [[nodiscard]] Bf16 at(int row, std::int64_t col) const {
    return values[static_cast<std::size_t>(row * k + col)];
  }
};

// Normal values of either sign with magnitudes 2^-8 .. 2^8, and some zeros of either sign.
inline Matrix random_matrix(int rows, std::int64_t k, std::uint32_t seed) {
  std::mt19937 random(seed);
  Matrix matrix{rows, k, std::vector<Bf16>(static_cast<std::size_t>(rows * k))};
  for (Bf16& value : matrix.values) {
    const auto draw = static_cast<std::uint32_t>(random());
    const float sign = (draw & 1U) != 0 ? -1.0F : 1.0F;
    const float mantissa = 1.0F + static_cast<float>((draw >> 1) & 127U) / 128.0F;
    const int exponent = static_cast<int>((draw >> 8) % 17U) - 8;
    const bool is_zero = (draw >> 16) % 50U == 0;
    value = to_bf16(is_zero ? sign * 0.0F : sign * std::ldexp(mantissa, exponent));
  }
  return matrix;
}

// Part of a matrix laid out for a call: `gap` unused elements (NaN) between rows or k.
class TestOperand {
 public:
  TestOperand(const Matrix& from, int row0, int rows, std::int64_t k0, std::int64_t k, Major major,
              Placement placement, std::int64_t gap = 3)
      : major_(major),
        stride_((major == Major::kK ? k : rows) + gap),
        array_(rows == 0 || k == 0  ? 0
               : major == Major::kK ? (rows - 1) * stride_ + k
                                    : (k - 1) * stride_ + rows,
               placement, to_bf16(kNan)) {
    for (int row = 0; row < rows; ++row) {
      for (std::int64_t i = 0; i < k; ++i) {
        const std::int64_t offset = major == Major::kK ? row * stride_ + i : i * stride_ + row;
        array_.data()[offset] = from.at(row0 + row, k0 + i);
      }
    }
  }
  [[nodiscard]] Operand ref() const { return {array_.data(), stride_, major_}; }

 private:
  Major major_;
  std::int64_t stride_;
  TestArray<Bf16> array_;
};

// Sums of m x n with `gap` elements between rows that must stay as they were.
class TestAcc {
 public:
  static constexpr float kGapValue = -12345.0F;

  TestAcc(int m, int n, Placement placement, float fill, std::int64_t gap = 5)
      : m_(m),
        n_(n),
        stride_(n + gap),
        array_(m == 0 || n == 0 ? 0 : (m - 1) * stride_ + n, placement, kGapValue) {
    for (int row = 0; row < m; ++row) {
      for (int col = 0; col < n; ++col) {
        at(row, col) = fill;
      }
    }
  }
  [[nodiscard]] float& at(int row, int col) const { return array_.data()[row * stride_ + col]; }
  [[nodiscard]] std::uint32_t bits(int row, int col) const {
    return std::bit_cast<std::uint32_t>(at(row, col));
  }
  [[nodiscard]] float* data() const { return array_.data(); }
  [[nodiscard]] std::int64_t stride() const { return stride_; }
  [[nodiscard]] bool gaps_untouched() const {
    for (int row = 0; row + 1 < m_; ++row) {
      for (std::int64_t i = n_; i < stride_; ++i) {
        if (array_.data()[row * stride_ + i] != kGapValue) {
          return false;
        }
      }
    }
    return true;
  }

 private:
  int m_;
  int n_;
  std::int64_t stride_;
  TestArray<float> array_;
};

}  // namespace mok::cpu
