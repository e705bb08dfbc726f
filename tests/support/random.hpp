// random.hpp: the small generator of the property tests. The same numbers on every machine; the
// seed comes from MOK_TEST_SEED (default 1) and every failure prints it.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <utility>
#include <vector>

namespace mok::testing {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t bits() {  // splitmix64
    state_ += 0x9e3779b97f4a7c15ULL;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }
  // 0 .. count-1
  std::uint32_t below(std::uint32_t count) {
    return static_cast<std::uint32_t>(((bits() >> 32) * count) >> 32);
  }
  std::uint32_t between(std::uint32_t low, std::uint32_t high) {
    return low + below(high - low + 1);
  }
  bool one_in(std::uint32_t count) { return below(count) == 0; }

  template <class T>
  void shuffle(std::vector<T>& values) {
    for (std::size_t i = values.size(); i > 1; --i) {
      std::swap(values[i - 1], values[below(static_cast<std::uint32_t>(i))]);
    }
  }

 private:
  std::uint64_t state_;
};

inline std::uint64_t test_seed() {
  const char* text = std::getenv("MOK_TEST_SEED");
  return text == nullptr ? 1 : std::strtoull(text, nullptr, 10);
}

}  // namespace mok::testing
