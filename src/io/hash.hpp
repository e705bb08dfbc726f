// hash.hpp: XXH64 of bytes, at once or piece by piece; how results are named and compared.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace mok::io {

[[nodiscard]] std::uint64_t xxh64(std::span<const std::byte> bytes, std::uint64_t seed = 0);

// The same value for any split of the bytes into pieces.
class Xxh64Stream {
 public:
  explicit Xxh64Stream(std::uint64_t seed = 0);
  Xxh64Stream(Xxh64Stream&&) noexcept;
  Xxh64Stream& operator=(Xxh64Stream&&) noexcept;
  ~Xxh64Stream();

  void update(std::span<const std::byte> bytes);
  // Of everything so far; more may follow.
  [[nodiscard]] std::uint64_t digest() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// "xxh64:0123456789abcdef", always 16 digits.
[[nodiscard]] std::string hash_text(std::uint64_t hash);

}  // namespace mok::io
