// draw.hpp: random numbers as a pure function of (seed, stream, index).
//
// Any element can be drawn alone, by any thread, in any order and for any number of ranks, with the
// same bits on every machine. The generator is Philox4x32-10: ten rounds of two 32 x 32 bit
// products over a 128-bit counter (index, stream), keyed by the seed. For one seed it is a
// bijection of the counter, so streams never overlap. Constants and known answers: Salmon, Moraes,
// Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "core/bf16.hpp"

namespace mok::io {

// What a stream is for. Values are part of what a seed means: add at the end, never renumber.
enum class Purpose : std::uint16_t {
  kTokenState = 1,
  kWordState = 2,
  kRoutingLogit = 3,
  kRouterMatrix = 4,
  kOutputGradient = 5,
  kGateWeight = 6,
  kUpWeight = 7,
  kDownWeight = 8,
  kSharedGateWeight = 9,
  kSharedUpWeight = 10,
  kSharedDownWeight = 11,
  kSharedOutputGate = 12,
  kTestCase = 13,
};

// Distinct for every purpose, layer and micro-batch (both below 2^24).
[[nodiscard]] constexpr std::uint64_t stream_id(Purpose purpose, std::uint32_t layer = 0,
                                                std::uint32_t microbatch = 0) {
  return (static_cast<std::uint64_t>(purpose) << 48) | (static_cast<std::uint64_t>(layer) << 24) |
         microbatch;
}

using PhiloxCounter = std::array<std::uint32_t, 4>;
using PhiloxKey = std::array<std::uint32_t, 2>;
[[nodiscard]] PhiloxCounter philox4x32(PhiloxCounter counter, PhiloxKey key);

// The functions below that share (seed, stream, index) share bits: give each use its own stream.
[[nodiscard]] std::uint64_t bits64(std::uint64_t seed, std::uint64_t stream, std::uint64_t index);

// Uniform in [0, 1), a multiple of 2^-53.
[[nodiscard]] double uniform01(std::uint64_t seed, std::uint64_t stream, std::uint64_t index);

// Uniform in [0, bound), bound >= 1. The bias is below bound / 2^64.
[[nodiscard]] std::uint64_t below(std::uint64_t bound, std::uint64_t seed, std::uint64_t stream,
                                  std::uint64_t index);

// Standard normal (Box-Muller, |value| < 6.7).
[[nodiscard]] float normal(std::uint64_t seed, std::uint64_t stream, std::uint64_t index);

// out[i] = normal(seed, stream, first_index + i), many at a time.
void fill_normal(std::span<float> out, std::uint64_t seed, std::uint64_t stream,
                 std::uint64_t first_index);

// out[i] = to_bf16(scale * normal(seed, stream, first_index + i)).
void fill_normal_bf16(std::span<Bf16> out, std::uint64_t seed, std::uint64_t stream,
                      std::uint64_t first_index, float scale = 1.0F);

// The hidden state of a word: standard normal, from a hash of the word. Equal words and seeds give
// equal states, and a shorter row is the beginning of a longer one.
void fill_word_state(std::span<Bf16> row, std::string_view word, std::uint64_t seed);

}  // namespace mok::io
