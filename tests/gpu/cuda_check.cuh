// cuda_check.cuh: checked CUDA calls, device memory, a bounded wait, and what machine this is.
#pragma once

#include <cuda_runtime.h>
#include <dlfcn.h>

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

namespace mok::gpu_test {

// Ends the program: a test that lost its GPU has nothing more to say. _Exit, because exit handlers
// could wait for a kernel that never ends.
[[noreturn]] inline void stop(const std::string& why, int status) {
  std::fprintf(stderr, "%s\n", why.c_str());
  std::fflush(nullptr);
  std::_Exit(status);
}

inline void check(cudaError_t error, const char* what) {
  if (error != cudaSuccess) {
    stop(std::string(what) + ": " + cudaGetErrorString(error), 1);
  }
}

template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(std::size_t count) : count_(count) {
    check(cudaMalloc(&data_, bytes()), "cudaMalloc");
  }
  ~DeviceArray() { check(cudaFree(data_), "cudaFree"); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  [[nodiscard]] T* get() const { return data_; }
  [[nodiscard]] std::size_t bytes() const { return count_ * sizeof(T); }
  void fill_bytes(int value) { check(cudaMemset(data_, value, bytes()), "cudaMemset"); }
  void upload(const T* source) {
    check(cudaMemcpy(data_, source, bytes(), cudaMemcpyHostToDevice), "copy to the GPU");
  }
  void download(T* target) const {
    check(cudaMemcpy(target, data_, bytes(), cudaMemcpyDeviceToHost), "copy from the GPU");
  }

 private:
  T* data_ = nullptr;
  std::size_t count_ = 0;
};

// Returns when all launched work is done; ends the program if that takes longer than the deadline.
inline void wait_for_gpu(const char* what, std::chrono::milliseconds deadline) {
  const auto end = std::chrono::steady_clock::now() + deadline;
  for (;;) {
    const cudaError_t state = cudaStreamQuery(nullptr);
    if (state == cudaSuccess) {
      return;
    }
    if (state != cudaErrorNotReady) {
      check(state, what);
    }
    if (std::chrono::steady_clock::now() > end) {
      stop(std::string(what) + ": not done within " + std::to_string(deadline.count()) + " ms", 1);
    }
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

struct Machine {
  std::string gpu;
  std::string driver;   // as the driver's own library says, else "unknown"
  int cuda_driver = 0;  // 13000 = 13.0: the newest CUDA that the driver serves
  int cuda_runtime = 0;
};

inline std::string driver_version() {
  void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
  if (library == nullptr) {
    return "unknown";
  }
  using Init = int (*)();
  using Version = int (*)(char*, unsigned);
  const auto init = reinterpret_cast<Init>(dlsym(library, "nvmlInit_v2"));
  const auto version = reinterpret_cast<Version>(dlsym(library, "nvmlSystemGetDriverVersion"));
  char text[96] = "unknown";
  if (init != nullptr && version != nullptr && init() == 0 && version(text, sizeof text) != 0) {
    return "unknown";
  }
  return text;
}

// Exit status 2 with one sentence where there is no GPU of compute capability 9.0.
inline Machine require_hopper() {
  int num_devices = 0;
  const cudaError_t error = cudaGetDeviceCount(&num_devices);
  if (error != cudaSuccess || num_devices == 0) {
    stop(std::string("No GPU: this test needs one of compute capability 9.0 (") +
             cudaGetErrorString(error) + ").",
         2);
  }
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
  if (properties.major != 9 || properties.minor != 0) {
    stop("GPU 0 (" + std::string(properties.name) + ") has compute capability " +
             std::to_string(properties.major) + "." + std::to_string(properties.minor) +
             ": this test needs 9.0.",
         2);
  }
  Machine machine{.gpu = properties.name, .driver = driver_version()};
  check(cudaSetDevice(0), "cudaSetDevice");
  check(cudaDriverGetVersion(&machine.cuda_driver), "cudaDriverGetVersion");
  check(cudaRuntimeGetVersion(&machine.cuda_runtime), "cudaRuntimeGetVersion");
  return machine;
}

}  // namespace mok::gpu_test
