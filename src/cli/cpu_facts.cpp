// cpu_facts.cpp: processor, engines and memory of this machine.
#include <algorithm>
#include <fstream>
#include <sstream>
#include <string_view>
#include <thread>

#include "cli/machine_facts.hpp"
#include "cli/memory.hpp"
#include "cpu/engine/engine.hpp"

namespace mok::cli {

namespace {

// The value of the first line `key : value`, empty where there is none.
std::string value_of_line(const char* file, std::string_view key) {
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    const std::size_t colon = line.find(':');
    if (colon != std::string::npos && line.starts_with(key)) {
      const std::size_t first = line.find_first_not_of(" \t", colon + 1);
      return first == std::string::npos ? std::string{} : line.substr(first);
    }
  }
  return {};
}

std::string cpu_model() {
  // Arm names no model: the implementer and part numbers have to do.
  std::string model = value_of_line("/proc/cpuinfo", "model name");
  if (!model.empty()) {
    return model;
  }
  const std::string part = value_of_line("/proc/cpuinfo", "CPU part");
  return part.empty() ? "unknown"
                      : "implementer " + value_of_line("/proc/cpuinfo", "CPU implementer") +
                            ", part " + part;
}

std::vector<std::string> engine_features() {
  std::istringstream flags(value_of_line("/proc/cpuinfo", "flags"));
  std::vector<std::string> found;
  for (std::string flag; flags >> flag;) {
    for (const std::string_view known :
         {"avx2", "fma", "avx512f", "avx512bw", "avx512vl", "avx512_bf16", "amx_bf16"}) {
      if (flag == known) {
        found.push_back(flag);
      }
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::uint64_t available_bytes() {
  std::istringstream value(value_of_line("/proc/meminfo", "MemAvailable"));
  std::uint64_t kibibytes = 0;
  value >> kibibytes;
  return kibibytes * 1024;
}

}  // namespace

CpuFacts read_cpu_facts() {
  CpuFacts facts;
  facts.model = cpu_model();
  facts.num_threads = static_cast<int>(std::thread::hardware_concurrency());
  facts.features = engine_features();
  if (const auto engine = cpu::find_engine("auto")) {
    facts.best_engine = (*engine)->name;
  }
  facts.memory_bytes = machine_memory_bytes();
  facts.free_bytes = std::min(available_bytes(), facts.memory_bytes);
  return facts;
}

}  // namespace mok::cli
