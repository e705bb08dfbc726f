// draw.cpp: Philox4x32-10, and normal numbers from it by Box-Muller.
#include "io/draw.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "io/hash.hpp"
#include "io/portable_math.hpp"

namespace mok::io {

namespace {

constexpr std::uint32_t kMultiplier0 = 0xd2511f53;
constexpr std::uint32_t kMultiplier1 = 0xcd9e8d57;
constexpr std::uint32_t kWeyl0 = 0x9e3779b9;
constexpr std::uint32_t kWeyl1 = 0xbb67ae85;
constexpr int kRounds = 10;

constexpr std::size_t kValuesPerBlock = 4;   // one Philox block is 4 words, two make two normals
constexpr std::size_t kBlocksPerBatch = 64;  // batches keep the loops long and the arrays in L1
constexpr std::size_t kValuesPerBatch = kValuesPerBlock * kBlocksPerBatch;

constexpr std::uint32_t low(std::uint64_t value) {
  return static_cast<std::uint32_t>(value);
}
constexpr std::uint32_t high(std::uint64_t value) {
  return static_cast<std::uint32_t>(value >> 32);
}

inline PhiloxCounter philox_inline(PhiloxCounter c, PhiloxKey k) {
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t product0 = std::uint64_t{kMultiplier0} * c[0];
    const std::uint64_t product1 = std::uint64_t{kMultiplier1} * c[2];
    c = {high(product1) ^ c[1] ^ k[0], low(product1), high(product0) ^ c[3] ^ k[1], low(product0)};
    k = {k[0] + kWeyl0, k[1] + kWeyl1};
  }
  return c;
}

inline PhiloxCounter block(std::uint64_t seed, std::uint64_t stream, std::uint64_t number) {
  return philox_inline({low(number), high(number), low(stream), high(stream)},
                       {low(seed), high(seed)});
}

struct Pair {
  float first;
  float second;
};

// Radius from one word, angle from the other. The angle is a quarter turn (two bits) plus t in
// [-pi/4, pi/4] (22 bits), so that short series are enough and turning by quarters is exact.
inline Pair box_muller(std::uint32_t radius_word, std::uint32_t angle_word) {
  const auto radius_bits = static_cast<std::int32_t>(radius_word >> 1);
  const float u = (static_cast<float>(radius_bits) + 0.5F) * 0x1p-31F;  // in (0, 1]
  const float radius = std::sqrt(std::max(-2.0F * portable_log(u), 0.0F));

  constexpr float kStep = static_cast<float>(std::numbers::pi / 2.0 * 0x1p-22);
  const auto offset = static_cast<std::int32_t>((angle_word >> 8) & 0x3fffffU) - (1 << 21);
  const float t = (static_cast<float>(offset) + 0.5F) * kStep;
  const float along = radius * portable_cos(t);
  const float across = radius * portable_sin(t);

  const bool is_odd_turn = ((angle_word >> 30) & 1U) != 0;
  const std::uint32_t sign = angle_word & 0x80000000U;
  const auto turn = [sign](float value) {
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) ^ sign);
  };
  return {turn(is_odd_turn ? -across : along), turn(is_odd_turn ? along : across)};
}

// Values [4 first_block, 4 first_block + 256) of a stream.
void normal_batch(std::array<float, kValuesPerBatch>& out, std::uint64_t seed, std::uint64_t stream,
                  std::uint64_t first_block) {
  std::array<std::uint32_t, kValuesPerBatch / 2> radius_words;
  std::array<std::uint32_t, kValuesPerBatch / 2> angle_words;
  for (std::size_t i = 0; i < kBlocksPerBatch; ++i) {
    const PhiloxCounter words = block(seed, stream, first_block + i);
    radius_words[2 * i] = words[0];
    angle_words[2 * i] = words[1];
    radius_words[2 * i + 1] = words[2];
    angle_words[2 * i + 1] = words[3];
  }
  for (std::size_t i = 0; i < kValuesPerBatch / 2; ++i) {
    const Pair pair = box_muller(radius_words[i], angle_words[i]);
    out[2 * i] = pair.first;
    out[2 * i + 1] = pair.second;
  }
}

// Calls use(values, position of the first in the output) for consecutive parts.
template <class Use>
void for_each_batch(std::size_t count, std::uint64_t seed, std::uint64_t stream,
                    std::uint64_t first_index, Use use) {
  std::array<float, kValuesPerBatch> batch;
  for (std::size_t done = 0; done < count;) {
    const std::uint64_t index = first_index + done;
    const std::size_t skip = index % kValuesPerBlock;
    const std::size_t length = std::min(count - done, kValuesPerBatch - skip);
    if (skip + length <= kValuesPerBatch / 8) {  // a whole batch would be mostly thrown away
      for (std::size_t i = 0; i < length; ++i) {
        batch[skip + i] = normal(seed, stream, index + i);
      }
    } else {
      normal_batch(batch, seed, stream, index / kValuesPerBlock);
    }
    use(std::span<const float>(batch).subspan(skip, length), done);
    done += length;
  }
}

}  // namespace

PhiloxCounter philox4x32(PhiloxCounter counter, PhiloxKey key) {
  return philox_inline(counter, key);
}

std::uint64_t bits64(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
  const PhiloxCounter words = block(seed, stream, index / 2);
  return index % 2 == 0 ? (std::uint64_t{words[1]} << 32) | words[0]
                        : (std::uint64_t{words[3]} << 32) | words[2];
}

double uniform01(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
  return static_cast<double>(bits64(seed, stream, index) >> 11) * 0x1p-53;
}

std::uint64_t below(std::uint64_t bound, std::uint64_t seed, std::uint64_t stream,
                    std::uint64_t index) {
  // The high word of the 128-bit product bits * bound, from 32-bit halves.
  const std::uint64_t bits = bits64(seed, stream, index);
  const std::uint64_t low_low = std::uint64_t{low(bits)} * low(bound);
  const std::uint64_t high_low = std::uint64_t{high(bits)} * low(bound);
  const std::uint64_t low_high = std::uint64_t{low(bits)} * high(bound);
  const std::uint64_t middle = high(low_low) + std::uint64_t{low(high_low)} + low(low_high);
  return std::uint64_t{high(bits)} * high(bound) + high(high_low) + high(low_high) + high(middle);
}

float normal(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
  const PhiloxCounter words = block(seed, stream, index / kValuesPerBlock);
  const std::size_t pair = index % kValuesPerBlock / 2;
  const Pair values = box_muller(words[2 * pair], words[2 * pair + 1]);
  return index % 2 == 0 ? values.first : values.second;
}

void fill_normal(std::span<float> out, std::uint64_t seed, std::uint64_t stream,
                 std::uint64_t first_index) {
  for_each_batch(out.size(), seed, stream, first_index,
                 [&](std::span<const float> values, std::size_t at) {
                   std::copy(values.begin(), values.end(), out.begin() + static_cast<long>(at));
                 });
}

void fill_normal_bf16(std::span<Bf16> out, std::uint64_t seed, std::uint64_t stream,
                      std::uint64_t first_index, float scale) {
  for_each_batch(out.size(), seed, stream, first_index,
                 [&](std::span<const float> values, std::size_t at) {
                   for (std::size_t i = 0; i < values.size(); ++i) {
                     out[at + i] = to_bf16(scale * values[i]);
                   }
                 });
}

void fill_word_state(std::span<Bf16> row, std::string_view word, std::uint64_t seed) {
  const std::uint64_t word_seed = xxh64(std::as_bytes(std::span(word)), seed);
  fill_normal_bf16(row, word_seed, stream_id(Purpose::kWordState), 0);
}

}  // namespace mok::io
