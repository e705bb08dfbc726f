// diagnosis.cpp: what the facts mean.
#include "cli/diagnosis.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cli/memory.hpp"

namespace mok::cli {

namespace {

constexpr std::uint64_t kLeastMemory = std::uint64_t{1} << 30;  // for the default run with room

Finding about_cpu(const CpuFacts& cpu) {
  std::string features;
  for (const std::string& feature : cpu.features) {
    features += (features.empty() ? "" : " ") + feature;
  }
  Finding finding{"cpu", Verdict::kOk,
                  fmt::format("{}, {} threads, {}; best engine {}", cpu.model, cpu.num_threads,
                              features.empty() ? "no vector features" : features, cpu.best_engine),
                  ""};
  if (cpu.best_engine.empty()) {
    finding.verdict = Verdict::kMissing;
    finding.advice = "no engine runs on this processor";
  } else if (cpu.best_engine != "avx512_bf16") {
    finding.advice = "works; a processor with AVX512-BF16 is several times faster";
  }
  return finding;
}

Finding about_memory(const CpuFacts& cpu) {
  Finding finding{"memory", Verdict::kOk,
                  fmt::format("{} for this process, {} free", bytes_text(cpu.memory_bytes),
                              bytes_text(cpu.free_bytes)),
                  ""};
  if (cpu.memory_bytes < kLeastMemory) {
    finding.verdict = Verdict::kMissing;
    finding.advice = "give the process at least 1 GiB";
  }
  return finding;
}

Finding about_driver(const CudaFacts& cuda) {
  Finding finding{"driver", Verdict::kOk, "", ""};
  if (!cuda.has_driver) {
    finding.verdict = Verdict::kMissing;
    finding.found = "no libcuda.so.1";
    finding.advice = "for GPUs: install the NVIDIA driver, 580 or newer";
    return finding;
  }
  finding.found = fmt::format(
      "{}, runs up to CUDA {}.{}",
      cuda.driver_version.empty() ? "version unknown (no NVML)" : "version " + cuda.driver_version,
      cuda.cuda_version / 1000, cuda.cuda_version % 1000 / 10);
  const bool is_old =
      cuda.driver_major > 0 ? cuda.driver_major < kLeastDriver : cuda.cuda_version < 13000;
  if (!cuda.problem.empty()) {
    finding.verdict = Verdict::kMissing;
    finding.found += "; " + cuda.problem;
    finding.advice = "load the kernel module or give this process its GPUs";
  } else if (is_old) {
    finding.verdict = Verdict::kTooOld;
    finding.advice = "CUDA 13 needs driver 580 or newer";
  }
  return finding;
}

Finding about_gpus(const CudaFacts& cuda) {
  Finding finding{"gpus", Verdict::kOk, "", ""};
  if (cuda.gpus.empty()) {
    finding.verdict = Verdict::kMissing;
    finding.found = "none";
    finding.advice = "the CPU machine needs none";
    return finding;
  }
  for (std::size_t i = 0; i < cuda.gpus.size(); ++i) {
    const GpuFacts& gpu = cuda.gpus[i];
    finding.found += fmt::format("{}{}: {}, compute {}.{}, {}", i == 0 ? "" : "; ", i, gpu.name,
                                 gpu.major, gpu.minor, bytes_text(gpu.memory_bytes));
    if (gpu.major < kLeastComputeMajor) {
      finding.verdict = Verdict::kTooOld;
      finding.advice = "GPU code is for compute capability 9.0 (Hopper) or newer";
    }
  }
  return finding;
}

// A row a GPU: 1 where it can reach the other's memory.
Finding about_peers(const CudaFacts& cuda) {
  Finding finding{"peer_access", Verdict::kOk, "", ""};
  if (cuda.gpus.size() < 2) {
    finding.verdict = cuda.gpus.empty() ? Verdict::kMissing : Verdict::kOk;
    finding.found = cuda.gpus.empty() ? "no GPU" : "one GPU: nothing to reach";
    finding.advice = cuda.gpus.empty() ? "needed only between GPUs" : "";
    return finding;
  }
  finding.found = "matrix";
  for (const GpuFacts& gpu : cuda.gpus) {
    finding.found += ' ';
    for (const bool can : gpu.peer_access) {
      finding.found += can ? '1' : '0';
      finding.verdict = can ? finding.verdict : Verdict::kMissing;
    }
  }
  if (finding.verdict != Verdict::kOk) {
    finding.advice =
        "all GPUs of a group must reach each other: check topology, IOMMU and isolation";
  }
  return finding;
}

Finding about_nvlink(const CudaFacts& cuda) {
  Finding finding{"nvlink", Verdict::kOk, "", ""};
  if (cuda.gpus.empty()) {
    return {"nvlink", Verdict::kMissing, "no GPU", "needed only between GPUs"};
  }
  bool is_known = true;
  bool all_linked = true;
  for (std::size_t i = 0; i < cuda.gpus.size(); ++i) {
    const std::optional<int> links = cuda.gpus[i].num_nvlinks;
    is_known = is_known && links.has_value();
    all_linked = all_linked && links.value_or(0) > 0;
    finding.found += fmt::format("{}{}: {}", i == 0 ? "links up, GPU " : ", ", i,
                                 links ? std::to_string(*links) : "unknown");
  }
  if (!is_known) {
    finding.verdict = Verdict::kMissing;
    finding.advice = "NVML does not say: install libnvidia-ml.so.1 with the driver";
  } else if (!all_linked && cuda.gpus.size() > 1) {
    finding.verdict = Verdict::kMissing;
    finding.advice = "GPUs without NVLink are slow: check topology and fabric manager";
  }
  return finding;
}

std::string nccl_version_text(int version) {
  // Up to 2.8 the number was major*1000 + minor*100 + patch.
  return version < 10000
             ? fmt::format("{}.{}.{}", version / 1000, version % 1000 / 100, version % 100)
             : fmt::format("{}.{}.{}", version / 10000, version % 10000 / 100, version % 100);
}

Finding about_nccl(const NcclFacts& nccl) {
  if (nccl.path.empty()) {
    return {"nccl", Verdict::kMissing, "no libnccl.so.2",
            "needed only for groups of GPUs: install libnccl2 or the nvidia-nccl package"};
  }
  Finding finding{"nccl", Verdict::kOk,
                  fmt::format("version {} at {}", nccl_version_text(nccl.version), nccl.path), ""};
  if (nccl.version < kLeastNccl) {
    finding.verdict = Verdict::kTooOld;
    finding.advice = "symmetric memory needs NCCL 2.28 or newer";
  }
  return finding;
}

}  // namespace

std::string_view name(Verdict verdict) {
  switch (verdict) {
    case Verdict::kOk: return "ok";
    case Verdict::kMissing: return "missing";
    case Verdict::kTooOld: return "too old";
  }
  return "unknown";
}

std::vector<Finding> diagnose(const CpuFacts& cpu, const CudaFacts& cuda, const NcclFacts& nccl) {
  return {about_cpu(cpu),    about_memory(cpu),  about_driver(cuda), about_gpus(cuda),
          about_peers(cuda), about_nvlink(cuda), about_nccl(nccl)};
}

bool cpu_machine_runs(const CpuFacts& cpu) {
  return about_cpu(cpu).verdict == Verdict::kOk && about_memory(cpu).verdict == Verdict::kOk;
}

}  // namespace mok::cli
