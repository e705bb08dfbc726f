// engine.cpp: names of the CPU engines, and which of them this CPU can run.
#include "cpu/engine/engine.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "cpu/engine/engine_gemms.hpp"

namespace mok::cpu {
namespace {

constexpr Engine kScalarEngine{EngineKind::kScalar, "scalar", gemm_scalar};
constexpr std::string_view kAutoName = "auto";

struct Entry {
  std::string_view name;
  std::string_view needs;
  const Engine* engine;  // null: this CPU cannot run it
};

// Best first.
std::vector<Entry> list_engines() {
  std::vector<Entry> entries{{"avx512_bf16", "AVX512 (F, BW, VL) with BF16", nullptr},
                             {"avx2", "AVX2 with FMA", nullptr},
                             {"scalar", "nothing", &kScalarEngine}};
#if defined(__x86_64__)
  static constexpr Engine kAvx512Engine{EngineKind::kAvx512Bf16, "avx512_bf16", gemm_avx512_bf16};
  static constexpr Engine kAvx2Engine{EngineKind::kAvx2, "avx2", gemm_avx2};
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
      __builtin_cpu_supports("avx512vl") != 0 && __builtin_cpu_supports("avx512bf16") != 0) {
    entries[0].engine = &kAvx512Engine;
  }
  if (__builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0) {
    entries[1].engine = &kAvx2Engine;
  }
#endif
  return entries;
}

// Number of single-letter edits from one word to the other.
std::size_t edit_distance(std::string_view from, std::string_view to) {
  std::vector<std::size_t> row(to.size() + 1);
  for (std::size_t j = 0; j < row.size(); ++j) {
    row[j] = j;
  }
  for (std::size_t i = 0; i < from.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < to.size(); ++j) {
      const std::size_t replaced = diagonal + (from[i] == to[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

Status unknown_name(std::string_view name, const std::vector<Entry>& entries) {
  // A name cut short ("avx512") is nearer to the full one than letters tell.
  const auto distance = [name](std::string_view legal) {
    return !name.empty() && legal.starts_with(name) ? 0 : edit_distance(name, legal);
  };
  std::string_view nearest = kAutoName;
  for (const Entry& entry : entries) {
    if (distance(entry.name) < distance(nearest)) {
      nearest = entry.name;
    }
  }
  return Status::bad_argument(
      "engine", std::string{name},
      "must be auto, scalar, avx2 or avx512_bf16; nearest is " + std::string{nearest});
}

Status not_supported(const Entry& wanted, const std::vector<Entry>& entries) {
  std::string runnable{kAutoName};
  for (const Entry& entry : entries) {
    if (entry.engine != nullptr) {
      runnable += ", ";
      runnable += entry.name;
    }
  }
  return Status::environment(
      "engine", std::string{wanted.name},
      "this CPU lacks " + std::string{wanted.needs} + "; engines that run here: " + runnable);
}

}  // namespace

Result<const Engine*> find_engine(std::string_view name) {
  const std::vector<Entry> entries = list_engines();
  for (const Entry& entry : entries) {
    if (name == kAutoName && entry.engine != nullptr) {
      return entry.engine;
    }
    if (name == entry.name) {
      if (entry.engine == nullptr) {
        return failure(not_supported(entry, entries));
      }
      return entry.engine;
    }
  }
  return failure(unknown_name(name, entries));
}

}  // namespace mok::cpu
