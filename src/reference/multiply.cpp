// multiply.cpp: the double matrix product of the reference, four rows by eight columns at a time.
#include "reference/multiply.hpp"

#include <cstring>

// One source, compiled for the vector widths of this processor family and chosen at load time. The
// sanitizers start after such a choice would have to run, so they get the plain build.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define MOK_REFERENCE_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define MOK_REFERENCE_CLONES
#endif

namespace mok::reference {
namespace {

using Vector = double __attribute__((vector_size(kLanes * sizeof(double))));
static_assert(sizeof(Lanes) == 2 * sizeof(Vector));

// A block of the right operand that stays in the first-level cache: 128 * 128 bytes.
constexpr std::int64_t kProductsPerBlock = 128;

template <std::size_t kRows>
[[gnu::always_inline]] inline void multiply_rows(LeftView left, const Lanes* right,
                                                 std::int64_t num_products, Lanes* out) {
  Vector value[kRows];
  Vector bound[kRows];
  for (std::size_t row = 0; row < kRows; ++row) {
    std::memcpy(&value[row], out[row].value, sizeof(Vector));
    std::memcpy(&bound[row], out[row].bound, sizeof(Vector));
  }
  const Operand* column = left.data;
  for (std::int64_t k = 0; k < num_products; ++k, column += left.product_stride) {
    Vector right_value;
    Vector right_bound;
    std::memcpy(&right_value, right[k].value, sizeof(Vector));
    std::memcpy(&right_bound, right[k].bound, sizeof(Vector));
    for (std::size_t row = 0; row < kRows; ++row) {
      const Operand& a = column[static_cast<std::int64_t>(row) * left.row_stride];
      value[row] += a.value * right_value;
      bound[row] += a.bound * right_bound;
    }
  }
  for (std::size_t row = 0; row < kRows; ++row) {
    std::memcpy(out[row].value, &value[row], sizeof(Vector));
    std::memcpy(out[row].bound, &bound[row], sizeof(Vector));
  }
}

}  // namespace

MOK_REFERENCE_CLONES
void multiply_add(LeftView left, const Lanes* right, std::int64_t num_rows,
                  std::int64_t num_products, Lanes* out) {
  for (std::int64_t first = 0; first < num_products; first += kProductsPerBlock) {
    const std::int64_t rest = num_products - first;
    const std::int64_t count = rest < kProductsPerBlock ? rest : kProductsPerBlock;
    LeftView block = left;
    block.data += first * left.product_stride;
    std::int64_t row = 0;
    for (; row + 4 <= num_rows; row += 4, block.data += 4 * left.row_stride) {
      multiply_rows<4>(block, right + first, count, out + row);
    }
    for (; row < num_rows; ++row, block.data += left.row_stride) {
      multiply_rows<1>(block, right + first, count, out + row);
    }
  }
}

}  // namespace mok::reference
