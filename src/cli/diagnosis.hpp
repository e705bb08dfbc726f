// diagnosis.hpp: the judgements of `mok doctor`: facts into verdicts and what to do.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cli/machine_facts.hpp"

namespace mok::cli {

enum class Verdict : std::uint8_t { kOk, kMissing, kTooOld };
[[nodiscard]] std::string_view name(Verdict verdict);

struct Finding {
  std::string item;  // cpu, memory, driver, gpus, peer_access, nvlink, nccl
  Verdict verdict = Verdict::kOk;
  std::string found;
  std::string advice;  // empty where there is nothing to do
};

// Needs of the GPU part; the CPU machine needs none of them.
inline constexpr int kLeastDriver = 580;  // CUDA 13
inline constexpr int kLeastComputeMajor = 9;
inline constexpr int kLeastNccl = 22800;

[[nodiscard]] std::vector<Finding> diagnose(const CpuFacts& cpu, const CudaFacts& cuda,
                                            const NcclFacts& nccl);

// Whether `mok run` works here: what the exit status says.
[[nodiscard]] bool cpu_machine_runs(const CpuFacts& cpu);

}  // namespace mok::cli
