// cuda_facts.cpp: driver, GPUs, links and NCCL, through libraries that are looked up at run time. The
// few functions are declared here by their published C signatures, so no toolkit is needed to build.
#include <glob.h>

#include <array>
#include <charconv>
#include <cstddef>

#include "cli/machine_facts.hpp"
#include "cli/shared_library.hpp"

namespace mok::cli {

namespace {

// CUDA driver API: every function returns 0 for success.
using CuInit = int(unsigned flags);
using CuGetVersion = int(int* version);
using CuDeviceCount = int(int* count);
using CuDevice = int(int* device, int ordinal);
using CuDeviceName = int(char* name, int length, int device);
using CuDeviceAttribute = int(int* value, int attribute, int device);
using CuDeviceMemory = int(std::size_t* bytes, int device);
using CuPeerAccess = int(int* can, int device, int peer);
using CuErrorName = int(int error, const char** name);
constexpr int kComputeMajor = 75;
constexpr int kComputeMinor = 76;

// NVML: likewise; a device is an opaque pointer.
using NvmlInit = int();
using NvmlDriverVersion = int(char* version, unsigned length);
using NvmlDeviceByPci = int(const char* bus_id, void** device);
using NvmlLinkState = int(void* device, unsigned link, unsigned* is_active);
using CuDevicePci = int(char* bus_id, int length, int device);
constexpr unsigned kMostLinks = 36;

std::string error_text(const SharedLibrary& driver, const char* call, int error) {
  const char* name = nullptr;
  if (auto* error_name = driver.function<CuErrorName>("cuGetErrorName")) {
    error_name(error, &name);
  }
  return std::string{call} + " failed: " + (name != nullptr ? name : std::to_string(error));
}

class Nvml {
 public:
  Nvml() : library_({"libnvidia-ml.so.1", "libnvidia-ml.so"}) {
    auto* init = library_.function<NvmlInit>("nvmlInit_v2");
    is_ready_ = init != nullptr && init() == 0;
  }
  [[nodiscard]] bool is_ready() const { return is_ready_; }

  [[nodiscard]] std::string driver_version() const {
    std::array<char, 96> text{};
    auto* get = library_.function<NvmlDriverVersion>("nvmlSystemGetDriverVersion");
    const bool is_known =
        is_ready_ && get != nullptr && get(text.data(), static_cast<unsigned>(text.size())) == 0;
    return is_known ? std::string{text.data()} : std::string{};
  }

  // By PCI address: NVML and CUDA may number devices differently.
  [[nodiscard]] std::optional<int> num_nvlinks(const char* bus_id) const {
    auto* find = library_.function<NvmlDeviceByPci>("nvmlDeviceGetHandleByPciBusId_v2");
    auto* state = library_.function<NvmlLinkState>("nvmlDeviceGetNvLinkState");
    void* device = nullptr;
    if (!is_ready_ || find == nullptr || state == nullptr || find(bus_id, &device) != 0) {
      return {};
    }
    int count = 0;
    for (unsigned link = 0; link < kMostLinks; ++link) {
      unsigned is_active = 0;
      count += state(device, link, &is_active) == 0 && is_active != 0 ? 1 : 0;
    }
    return count;
  }

 private:
  SharedLibrary library_;
  bool is_ready_ = false;
};

GpuFacts read_gpu(const SharedLibrary& driver, const Nvml& nvml, int ordinal, int count) {
  GpuFacts gpu;
  int device = 0;
  auto* get_device = driver.function<CuDevice>("cuDeviceGet");
  if (get_device == nullptr || get_device(&device, ordinal) != 0) {
    return gpu;
  }
  std::array<char, 128> text{};
  if (auto* name = driver.function<CuDeviceName>("cuDeviceGetName");
      name != nullptr && name(text.data(), static_cast<int>(text.size()) - 1, device) == 0) {
    gpu.name = text.data();
  }
  if (auto* attribute = driver.function<CuDeviceAttribute>("cuDeviceGetAttribute")) {
    attribute(&gpu.major, kComputeMajor, device);
    attribute(&gpu.minor, kComputeMinor, device);
  }
  if (auto* memory = driver.function<CuDeviceMemory>("cuDeviceTotalMem_v2")) {
    std::size_t bytes = 0;
    memory(&bytes, device);
    gpu.memory_bytes = bytes;
  }
  auto* can_access = driver.function<CuPeerAccess>("cuDeviceCanAccessPeer");
  for (int peer = 0; peer < count; ++peer) {
    int peer_device = 0;
    int can = peer == ordinal ? 1 : 0;
    if (peer != ordinal && can_access != nullptr && get_device(&peer_device, peer) == 0) {
      can_access(&can, device, peer_device);
    }
    gpu.peer_access.push_back(can != 0);
  }
  text = {};
  if (auto* bus_id = driver.function<CuDevicePci>("cuDeviceGetPCIBusId");
      bus_id != nullptr && bus_id(text.data(), static_cast<int>(text.size()) - 1, device) == 0) {
    gpu.num_nvlinks = nvml.num_nvlinks(text.data());
  }
  return gpu;
}

// The first path that the pattern matches.
std::string first_match(const char* pattern) {
  glob_t found{};
  const bool matches = ::glob(pattern, 0, nullptr, &found) == 0 && found.gl_pathc > 0;
  std::string path = matches ? found.gl_pathv[0] : "";
  ::globfree(&found);
  return path;
}

}  // namespace

CudaFacts read_cuda_facts() {
  CudaFacts facts;
  const Nvml nvml;
  facts.has_nvml = nvml.is_ready();
  facts.driver_version = nvml.driver_version();
  std::from_chars(facts.driver_version.data(),
                  facts.driver_version.data() + facts.driver_version.size(), facts.driver_major);
  const SharedLibrary driver({"libcuda.so.1", "libcuda.so"});
  facts.has_driver = driver.is_open();
  if (!facts.has_driver) {
    return facts;
  }
  auto* init = driver.function<CuInit>("cuInit");
  auto* device_count = driver.function<CuDeviceCount>("cuDeviceGetCount");
  if (auto* version = driver.function<CuGetVersion>("cuDriverGetVersion")) {
    version(&facts.cuda_version);
  }
  if (init == nullptr || device_count == nullptr) {
    facts.problem = "libcuda lacks cuInit or cuDeviceGetCount";
    return facts;
  }
  if (const int error = init(0); error != 0) {
    facts.problem = error_text(driver, "cuInit", error);
    return facts;
  }
  int count = 0;
  if (const int error = device_count(&count); error != 0) {
    facts.problem = error_text(driver, "cuDeviceGetCount", error);
  }
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    facts.gpus.push_back(read_gpu(driver, nvml, ordinal, count));
  }
  return facts;
}

NcclFacts read_nccl_facts() {
  // Where the loader looks, then where Python packages put it.
  const SharedLibrary library(
      {"libnccl.so.2", "libnccl.so",
       first_match("/usr/local/lib/python3*/*-packages/nvidia/nccl/lib/libnccl.so.2"),
       first_match("/usr/lib/python3*/*-packages/nvidia/nccl/lib/libnccl.so.2")});
  NcclFacts facts;
  auto* get_version = library.function<int(int*)>("ncclGetVersion");
  if (get_version != nullptr) {
    facts.path = SharedLibrary::path_of(reinterpret_cast<const void*>(get_version));
    get_version(&facts.version);
  }
  return facts;
}

}  // namespace mok::cli
