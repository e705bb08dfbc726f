// spike_kernel.cuh: the megakernel's skeleton: all roles, waits and publications, bodies that move
// tokens in shared memory. Arguments and launch; spike_kernel.cu tells grid, roles and registers.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "core/geometry.hpp"
#include "cuda/cuda_env.cuh"
#include "program/roles.hpp"

namespace mok::cuda {

inline constexpr std::uint32_t kSpikeThreads = 384;
inline constexpr std::uint32_t kSpikeNoRank = 0xffffffffU;
inline constexpr std::uint32_t kSpikeSharedBytes = 215'040;  // hopper.md's budget: one CTA an SM
inline constexpr std::uint32_t kSpikeRolesPerCta = 5;

// What a CTA leaves behind, all zero before the launch. Words are RoleEnd + 1; 0: never ended.
// Ended words stand at [cta * kSpikeRolesPerCta + role].
struct SpikeTicketLog {
  Task* tasks;            // [size] as the last role saw it
  std::uint32_t* visits;  // [size] storer (or comm) + 0x10000 * scheduler
  std::uint64_t* digest;  // sum over visits of ticket_digest()
};
struct SpikeLog {
  SpikeTicketLog compute;  // tasks == nullptr: not logged
  SpikeTicketLog comm;
  Task* scheduled;       // [size] compute tasks as the schedulers decoded them
  std::uint32_t* wrong;  // tokens that were not as they should be
};

MOK_HD std::uint64_t ticket_digest(const Task& task, std::uint32_t ticket) {
  std::uint64_t word = (static_cast<std::uint64_t>(task.kind) << 56) ^
                       (static_cast<std::uint64_t>(task.index) << 28) ^ task.col ^
                       (static_cast<std::uint64_t>(task.phase) << 44);
  word = (word + ticket) * 0x9e3779b97f4a7c15ULL;
  word ^= word >> 29;
  return word * 0xbf58476d1ce4e5b9ULL;
}

// One loop-back rank, in device memory; each CTA copies it into its shared memory.
template <class Geo>
struct SpikeRank {
  CallView<Geo> view;
  WordTable words;
  RoleShare share;
  CudaEnvWords env;
  SpikeLog log;
};

template <class Geo>
struct SpikeArguments {
  const SpikeRank<Geo>* ranks;
  std::uint32_t num_ranks;
  std::uint32_t stalled_rank;  // its CTAs leave at once; kSpikeNoRank: none
  std::uint32_t* ends;         // [grid * kSpikeRolesPerCta]
};

// What the decode-only kernel does with each compute ticket.
enum class Decode : std::uint32_t { kTask, kTaskAndWaits, kTaskWaitsAndSignals };

struct SpikeResources {
  int registers = 0;
  int local_bytes = 0;
};

// Grid: a multiple of the number of ranks. Launched on the default stream.
cudaError_t launch_spike(const SpikeArguments<StaticGeometry>& arguments, std::uint32_t grid);
cudaError_t launch_decode(const SpikeArguments<StaticGeometry>& arguments, std::uint32_t grid,
                          Decode decode);
// words[0 .. count) = value, on the default stream: the opening of a call's counters.
cudaError_t launch_fill(std::uint32_t* words, std::uint32_t count, std::uint32_t value);
// Before the first launch: allows the shared memory. CTAs of the spike that an SM holds; 0: too large.
cudaError_t spike_ctas_per_sm(int* ctas);
cudaError_t spike_resources(SpikeResources* spike, SpikeResources* decode);

}  // namespace mok::cuda
