// words.hpp: the two kinds of shared words and how they are compared.
//
// Counter: u32 in this rank's memory, written by adds of its own workers. Tag (call number mod 16) in
// the high 4 bits, count in the low 28. The opening of a call stores (tag, 0) before any worker runs.
// Flag: u64 in a rank's arena, one writer at a time, plain stores, only grows: call number in the high
// 32 bits, phase (or a payload) in the low 32. A late store of a dead call can never match a new one.
// Both are compared by signed difference, so that call numbers may wrap.
#pragma once

#include <cstdint>

#include "core/host_device.hpp"

namespace mok {

using Epoch = std::uint32_t;

inline constexpr std::uint32_t kCountBits = 28;
inline constexpr std::uint32_t kCountMask = (1U << kCountBits) - 1U;

MOK_HD constexpr std::uint32_t counter_value(Epoch epoch, std::uint32_t count) {
  return (epoch << kCountBits) | (count & kCountMask);
}
MOK_HD constexpr std::uint32_t counter_count(std::uint32_t value) {
  return value & kCountMask;
}
MOK_HD constexpr bool counter_reached(std::uint32_t value, std::uint32_t target) {
  return static_cast<std::int32_t>(value - target) >= 0;
}

MOK_HD constexpr std::uint64_t flag_value(Epoch epoch, std::uint32_t payload) {
  return (static_cast<std::uint64_t>(epoch) << 32) | payload;
}
MOK_HD constexpr Epoch flag_epoch(std::uint64_t value) {
  return static_cast<Epoch>(value >> 32);
}
MOK_HD constexpr std::uint32_t flag_payload(std::uint64_t value) {
  return static_cast<std::uint32_t>(value);
}
MOK_HD constexpr bool flag_reached(std::uint64_t value, std::uint64_t target) {
  return static_cast<std::int64_t>(value - target) >= 0;
}

// Payload of a start flag: which call this is and for which context, so that ranks that pair
// different calls find out. The call kind takes the high 4 bits.
MOK_HD constexpr std::uint32_t start_payload(std::uint32_t call_kind, std::uint32_t sequence) {
  return (call_kind << 28) | (sequence & 0x0fffffffU);
}

}  // namespace mok
