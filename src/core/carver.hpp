// carver.hpp: hands out offsets in one allocation. Sizes that leave 64 bits stick at the maximum.
#pragma once

#include <cstdint>
#include <limits>

#include "core/host_device.hpp"

namespace mok {

class Carver {
 public:
  static constexpr std::uint64_t kOverflow = std::numeric_limits<std::uint64_t>::max();
  static constexpr std::uint64_t kAlign = 256;  // TMA wants 128; a cache line pair on hosts

  // Offset of an array of count elements; 0 elements still get a place of their own.
  std::uint64_t take(std::uint64_t count, std::uint64_t element_bytes) {
    const std::uint64_t offset = bytes_;
    bytes_ = add(bytes_, align(mul(count, element_bytes)));
    return offset;
  }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  [[nodiscard]] bool overflow() const { return bytes_ == kOverflow; }

  static std::uint64_t mul(std::uint64_t a, std::uint64_t b) {
    std::uint64_t product = 0;
    return __builtin_mul_overflow(a, b, &product) ? kOverflow : product;
  }
  static std::uint64_t add(std::uint64_t a, std::uint64_t b) {
    std::uint64_t sum = 0;
    return __builtin_add_overflow(a, b, &sum) ? kOverflow : sum;
  }

 private:
  static std::uint64_t align(std::uint64_t bytes) {
    const std::uint64_t up = add(bytes, kAlign - 1);
    return up == kOverflow ? kOverflow : up / kAlign * kAlign;
  }
  std::uint64_t bytes_ = 0;
};

}  // namespace mok
