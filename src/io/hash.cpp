// hash.cpp: XXH64 through xxhash.h, inlined so that nothing has to be linked.
#include "io/hash.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <array>

namespace mok::io {

std::uint64_t xxh64(std::span<const std::byte> bytes, std::uint64_t seed) {
  return XXH64(bytes.data(), bytes.size(), seed);
}

struct Xxh64Stream::State {
  XXH64_state_t value;
};

Xxh64Stream::Xxh64Stream(std::uint64_t seed) : state_(std::make_unique<State>()) {
  XXH64_reset(&state_->value, seed);
}
Xxh64Stream::Xxh64Stream(Xxh64Stream&&) noexcept = default;
Xxh64Stream& Xxh64Stream::operator=(Xxh64Stream&&) noexcept = default;
Xxh64Stream::~Xxh64Stream() = default;

void Xxh64Stream::update(std::span<const std::byte> bytes) {
  if (!bytes.empty()) {  // the library calls a null pointer an error, empty spans may hold one
    XXH64_update(&state_->value, bytes.data(), bytes.size());
  }
}

std::uint64_t Xxh64Stream::digest() const {
  return XXH64_digest(&state_->value);
}

std::string hash_text(std::uint64_t hash) {
  constexpr std::array kDigits{'0', '1', '2', '3', '4', '5', '6', '7',
                               '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'};
  std::string text = "xxh64:0000000000000000";
  for (std::size_t i = text.size(); hash != 0; hash >>= 4) {
    text[--i] = kDigits[hash & 15U];
  }
  return text;
}

}  // namespace mok::io
