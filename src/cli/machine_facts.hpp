// machine_facts.hpp: what `mok doctor` finds out, without a judgement.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mok::cli {

struct CpuFacts {
  std::string model;
  int num_threads = 0;
  std::vector<std::string> features;  // of those that the engines use
  std::string best_engine;
  std::uint64_t memory_bytes = 0;  // of the machine, or of this process's group where less
  std::uint64_t free_bytes = 0;    // 0 = unknown
};
[[nodiscard]] CpuFacts read_cpu_facts();

struct GpuFacts {
  std::string name;
  int major = 0;  // compute capability
  int minor = 0;
  std::uint64_t memory_bytes = 0;
  std::vector<bool> peer_access;   // to GPU j
  std::optional<int> num_nvlinks;  // that are up; absent where NVML does not say
};

struct CudaFacts {
  bool has_driver = false;     // libcuda opens
  std::string problem;         // why the driver does not answer, if it does not
  std::string driver_version;  // "580.65.06"; from NVML
  int driver_major = 0;        // 580; 0 = unknown
  int cuda_version = 0;        // 13000 = CUDA 13.0, the most that the driver can run
  bool has_nvml = false;
  std::vector<GpuFacts> gpus;
};
[[nodiscard]] CudaFacts read_cuda_facts();

struct NcclFacts {
  std::string path;  // empty: not found
  int version = 0;   // 22809 = 2.28.9; 0: it does not say
};
[[nodiscard]] NcclFacts read_nccl_facts();

}  // namespace mok::cli
