// multiply.hpp: the double matrix product of the reference, value and bound side by side.
//
// An Operand carries two numbers that never meet: `value` takes part in the product of values,
// `bound` (>= 0) in the product of bounds. The caller chooses `bound` so that the second product,
// scaled or not, is the error of the first (error_model.hpp).
#pragma once

#include <cstddef>
#include <cstdint>

namespace mok::reference {

struct Operand {
  double value = 0.0;
  double bound = 0.0;
};

inline constexpr std::int64_t kLanes = 8;

// Eight neighbouring columns of one row.
struct alignas(64) Lanes {
  double value[kLanes];
  double bound[kLanes];
};

// A left operand of num_rows x num_products Operands with any strides.
struct LeftView {
  const Operand* data = nullptr;
  std::int64_t row_stride = 0;
  std::int64_t product_stride = 0;
};

// out[m] += sum over k of left(m, k) * right[k], for m < num_rows and k < num_products. Each
// element is added up in ascending k, so its bits do not depend on how rows and columns are shared
// out.
void multiply_add(LeftView left, const Lanes* right, std::int64_t num_rows,
                  std::int64_t num_products, Lanes* out);

}  // namespace mok::reference
