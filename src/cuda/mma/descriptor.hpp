// descriptor.hpp: how a BF16 operand lies in shared memory for wgmma, and the 64-bit word that says
// so.
//
// No swizzle. The unit is the core matrix: 8 x 8 elements in 128 contiguous bytes, made of 8 lines
// of 16 bytes. "Row" is a row of A (M) or of B^T (N); "k" runs along the sum.
//   K-major:  a line is 8 k of one row; the core matrix holds 8 rows.
//   MN-major: a line is 8 rows of one k; the core matrix holds 8 k. (Transpose bit 1.)
// In both, the stride leads to the next 8 rows and the leading offset to the next 8 of K. Nothing
// but a run on the chip confirms that reading: tests/gpu/wgmma_facts.cu.
#pragma once

#include <cstdint>

#include "core/host_device.hpp"

namespace mok::cuda::mma {

enum class Major : std::uint8_t { kK, kMn };

inline constexpr std::uint32_t kCoreMatrixRows = 8;
inline constexpr std::uint32_t kCoreMatrixBytes = 128;
inline constexpr std::uint32_t kCoreLineBytes = 16;
inline constexpr std::uint32_t kElementBytes = 2;
inline constexpr std::uint32_t kInstructionK = 16;  // K of one wgmma on 2-byte elements

struct CoreMatrixLayout {
  Major major = Major::kK;
  std::uint32_t leading_bytes = 0;  // to the core matrix of the next 8 of K
  std::uint32_t stride_bytes = 0;   // to the core matrix of the next 8 rows

  // Byte offset of an element from the operand's start.
  [[nodiscard]] MOK_HD_MEMBER constexpr std::uint32_t offset(std::uint32_t row,
                                                             std::uint32_t k) const {
    const std::uint32_t core =
        (row / kCoreMatrixRows) * stride_bytes + (k / kCoreMatrixRows) * leading_bytes;
    const std::uint32_t line = major == Major::kK ? row : k;
    const std::uint32_t place = major == Major::kK ? k : row;
    return core + (line % kCoreMatrixRows) * kCoreLineBytes +
           (place % kCoreMatrixRows) * kElementBytes;
  }
};

// `num_rows` x K without gaps: the core matrices of 8 of K lie together, row after row.
[[nodiscard]] MOK_HD constexpr CoreMatrixLayout packed_layout(Major major, std::uint32_t num_rows) {
  return {.major = major,
          .leading_bytes = num_rows / kCoreMatrixRows * kCoreMatrixBytes,
          .stride_bytes = kCoreMatrixBytes};
}

// Address and offsets are held in units of 16 bytes and 14 bits: multiples of 16 below 2^18.
[[nodiscard]] MOK_HD constexpr bool is_encodable(std::uint32_t value) {
  return value % 16U == 0 && value < (1U << 18);
}

// Bits 0-13 start, 16-29 leading offset, 32-45 stride; base offset (49-51) and layout (62-63) are
// 0. `shared_address` is the 32-bit address in the shared window; bits above 17 are dropped, as the
// hardware does.
[[nodiscard]] MOK_HD constexpr std::uint64_t encode_descriptor(std::uint32_t shared_address,
                                                               CoreMatrixLayout layout) {
  constexpr std::uint32_t kAddressMask = 0x3FFFFU;
  const std::uint64_t start = (shared_address & kAddressMask) >> 4;
  const std::uint64_t leading = (layout.leading_bytes & kAddressMask) >> 4;
  const std::uint64_t stride = (layout.stride_bytes & kAddressMask) >> 4;
  return start | (leading << 16) | (stride << 32);
}

}  // namespace mok::cuda::mma
