// spike_kernel.cu: the spike's two kernels.
//
// spike_kernel: grid = CTAs of all ranks (rank = blockIdx % R), 384 threads, one CTA an SM.
// | threads   | registers | role                                                        |
// | 0 - 127   | 40        | scheduler, loader, storer, comm: lane 0 of warps 0, 1, 2, 3 |
// | 128 - 383 | 232       | MMA, two warpgroups, all lanes                              |
// Shared memory: SpikeShared at the start of 215,040 dynamic bytes; the rest stands for the ring.
// Barriers: program/role_types.hpp. No CTA waits for another but through counters and flags, each with
// a deadline; there is no grid barrier.
//
// decode_kernel<Decode>: one warp a CTA claims and decodes all compute tickets, without waits.
#include "cuda/spike_kernel.cuh"

#include "cuda/mbarrier_pipe.cuh"
#include "cuda/ptx/register_budget.cuh"
#include "cuda/ptx/shared_address.cuh"
#include "cuda/spike_bodies.cuh"

namespace mok::cuda {
namespace {

constexpr int kFewRegisters = 40;
constexpr int kManyRegisters = 232;
enum class SpikeRole : std::uint32_t { kScheduler, kLoader, kStorer, kComm, kMma };
static_assert(static_cast<std::uint32_t>(SpikeRole::kMma) + 1 == kSpikeRolesPerCta);

template <std::uint32_t kStages, Arrive kArrive>
using GuardedPipe = MbarrierPipe<kStages, kArrive, GuardedWait>;

// What every role needs, made anew in each branch so that no register lives across roles.
template <class Geo, Arrive kArrive>
struct RoleParts {
  using MailPipe = GuardedPipe<kMailboxStages, kArrive>;
  using RingPipe = GuardedPipe<kRingStages, kArrive>;

  SpikeShared<Geo>& cta;

  __device__ __forceinline__ Mailbox<MailPipe> mailbox() const {
    return {MailPipe(ptx::shared_address(cta.mailbox), GuardedWait(cta.rank.env)), cta.slots};
  }
  __device__ __forceinline__ Ring<RingPipe> ring() const {
    const GuardedWait guard(cta.rank.env);
    return {RingPipe(ptx::shared_address(cta.ring), guard),
            RingPipe(ptx::shared_address(cta.handover), guard), kMmaWarps};
  }
  __device__ __forceinline__ RoleCall<Geo> call() const {
    return {cta.rank.view, cta.rank.words, cta.rank.share};
  }
};

template <class Geo>
__device__ __forceinline__ void copy_rank(SpikeRank<Geo>& to, const SpikeRank<Geo>& from) {
  static_assert(sizeof(SpikeRank<Geo>) % 8 == 0);
  auto* const words = reinterpret_cast<std::uint64_t*>(&to);
  const auto* const source = reinterpret_cast<const std::uint64_t*>(&from);
  for (std::uint32_t i = threadIdx.x; i < sizeof(SpikeRank<Geo>) / 8; i += blockDim.x) {
    words[i] = source[i];
  }
}

template <class Geo>
__device__ __forceinline__ void set_end(const SpikeArguments<Geo>& arguments,
                                        const SpikeShared<Geo>& cta, SpikeRole role, RoleEnd end) {
  arguments.ends[cta.block * kSpikeRolesPerCta + static_cast<std::uint32_t>(role)] =
      static_cast<std::uint32_t>(end) + 1;
}

template <class Geo>
__device__ __forceinline__ bool is_first_of_rank(const SpikeShared<Geo>& cta) {
  return cta.block < cta.rank.env.num_ranks;
}

template <class Geo>
__device__ __forceinline__ RoleEnd run_single(SpikeShared<Geo>& cta, SpikeRole role) {
  const RoleParts<Geo, Arrive::kThread> parts{cta};
  SpikeBodies<Geo> bodies(cta);
  switch (role) {
    case SpikeRole::kScheduler: {
      CudaEnv<Mirror::kHostWord> env(cta.rank.env);
      return scheduler_loop(env, parts.call(), parts.mailbox(), bodies, cta.hints[0]);
    }
    case SpikeRole::kLoader: return loader_loop(parts.mailbox(), parts.ring(), bodies);
    case SpikeRole::kStorer: {
      CudaEnv<Mirror::kNo> env(cta.rank.env);
      return storer_loop(env, parts.call(), parts.mailbox(), parts.ring(), bodies);
    }
    default: {
      CudaEnv<Mirror::kNo> env(cta.rank.env);
      const RoleCall<Geo> call = parts.call();
      if (is_first_of_rank(cta)) {
        publish_opening(env, call);
      }
      return comm_loop(env, call, bodies, cta.hints[1]);
    }
  }
}

template <class Geo>
__global__ void __launch_bounds__(kSpikeThreads, 1)
    spike_kernel(const __grid_constant__ SpikeArguments<Geo> arguments) {
  extern __shared__ __align__(128) unsigned char cta_memory[];
  auto& cta = *reinterpret_cast<SpikeShared<Geo>*>(cta_memory);
  const std::uint32_t rank = blockIdx.x % arguments.num_ranks;
  if (rank == arguments.stalled_rank) {
    return;
  }
  copy_rank(cta.rank, arguments.ranks[rank]);
  __syncthreads();
  if (threadIdx.x == 0) {
    cta.block = blockIdx.x;
    cta.hints[0] = cta.hints[1] = StepHint{};
    cta.rank.env.asks_left = is_first_of_rank(cta) ? 1 : 0;
    init_pipe(ptx::shared_address(cta.mailbox), mailbox_shape());
    init_pipe(ptx::shared_address(cta.ring), ring_shape());
    init_pipe(ptx::shared_address(cta.handover), handover_shape());
  }
  __syncthreads();
  if (threadIdx.x < 128) {
    ptx::setmaxnreg_dec<kFewRegisters>();
    if (threadIdx.x % 32 == 0) {
      const auto role = static_cast<SpikeRole>(threadIdx.x / 32);
      set_end(arguments, cta, role, run_single(cta, role));
    }
  } else {
    ptx::setmaxnreg_inc<kManyRegisters>();
    const RoleParts<Geo, Arrive::kWarp> parts{cta};
    SpikeBodies<Geo> bodies(cta);
    const RoleEnd end = mma_loop(parts.mailbox(), parts.ring(), bodies);
    if (threadIdx.x == 128) {
      set_end(arguments, cta, SpikeRole::kMma, end);
    }
  }
}

__device__ __forceinline__ std::uint32_t wait_digest(const WaitList& list) {
  std::uint32_t digest = list.flags.first + list.flags.payload * 3U + list.num_flags;
  for (std::uint32_t i = 0; i < list.num_counters; ++i) {
    digest += list.counters[i].counter * 5U + list.counters[i].count;
  }
  return digest;
}
__device__ __forceinline__ std::uint32_t signal_digest(const SignalList& list) {
  std::uint32_t digest = list.piece_rows_last;
  for (std::uint32_t i = 0; i < list.num_signals; ++i) {
    digest += list.signals[i].counter * 5U + list.signals[i].full;
  }
  return digest;
}

template <class Geo, Decode kDecode>
__global__ void __launch_bounds__(32)
    decode_kernel(const __grid_constant__ SpikeArguments<Geo> arguments) {
  extern __shared__ __align__(128) unsigned char cta_memory[];
  auto& own = *reinterpret_cast<SpikeRank<Geo>*>(cta_memory);
  copy_rank(own, arguments.ranks[blockIdx.x % arguments.num_ranks]);
  __syncwarp();
  if (threadIdx.x != 0) {
    return;
  }
  CudaEnv<Mirror::kNo> env(own.env);
  const ComputeQueue<Geo> queue(own.view);
  const std::uint32_t size = queue.size();
  std::uint64_t digest = 0;
  StepHint hint;
  std::uint32_t ticket = env.claim(own.share.compute_cursor);
  while (ticket < size) {
    const std::uint32_t next = env.claim(own.share.compute_cursor);
    const Task task = queue.task(ticket, hint);
    digest += ticket_digest(task, ticket);
    if constexpr (kDecode != Decode::kTask) {
      digest += static_cast<std::uint64_t>(wait_digest(waits_of(own.view, task))) << 32;
    }
    if constexpr (kDecode == Decode::kTaskWaitsAndSignals) {
      digest += static_cast<std::uint64_t>(signal_digest(signals_of(own.view, task))) << 32;
    }
    ticket = next;
  }
  atomicAdd(reinterpret_cast<unsigned long long*>(own.log.compute.digest), digest);
}

__global__ void __launch_bounds__(256)
    fill_kernel(std::uint32_t* words, std::uint32_t count, std::uint32_t value) {
  const std::uint32_t i = blockIdx.x * 256U + threadIdx.x;
  if (i < count) {
    words[i] = value;
  }
}

template <Decode kDecode>
cudaError_t launch_decode_kind(const SpikeArguments<StaticGeometry>& arguments,
                               std::uint32_t grid) {
  decode_kernel<StaticGeometry, kDecode>
      <<<grid, 32, sizeof(SpikeRank<StaticGeometry>)>>>(arguments);
  return cudaGetLastError();
}

cudaError_t allow_shared_bytes() {
  return cudaFuncSetAttribute(spike_kernel<StaticGeometry>,
                              cudaFuncAttributeMaxDynamicSharedMemorySize, kSpikeSharedBytes);
}

cudaError_t read_resources(const void* kernel, SpikeResources* out) {
  cudaFuncAttributes attributes{};
  const cudaError_t error = cudaFuncGetAttributes(&attributes, kernel);
  out->registers = attributes.numRegs;
  out->local_bytes = static_cast<int>(attributes.localSizeBytes);
  return error;
}

}  // namespace

cudaError_t launch_spike(const SpikeArguments<StaticGeometry>& arguments, std::uint32_t grid) {
  spike_kernel<StaticGeometry><<<grid, kSpikeThreads, kSpikeSharedBytes>>>(arguments);
  return cudaGetLastError();
}

cudaError_t launch_decode(const SpikeArguments<StaticGeometry>& arguments, std::uint32_t grid,
                          Decode decode) {
  switch (decode) {
    case Decode::kTask: return launch_decode_kind<Decode::kTask>(arguments, grid);
    case Decode::kTaskAndWaits: return launch_decode_kind<Decode::kTaskAndWaits>(arguments, grid);
    default: return launch_decode_kind<Decode::kTaskWaitsAndSignals>(arguments, grid);
  }
}

cudaError_t launch_fill(std::uint32_t* words, std::uint32_t count, std::uint32_t value) {
  if (count == 0) {
    return cudaSuccess;
  }
  fill_kernel<<<ceil_div(count, 256U), 256>>>(words, count, value);
  return cudaGetLastError();
}

cudaError_t spike_ctas_per_sm(int* ctas) {
  if (const cudaError_t error = allow_shared_bytes(); error != cudaSuccess) {
    return error;
  }
  return cudaOccupancyMaxActiveBlocksPerMultiprocessor(ctas, spike_kernel<StaticGeometry>,
                                                       kSpikeThreads, kSpikeSharedBytes);
}

cudaError_t spike_resources(SpikeResources* spike, SpikeResources* decode) {
  const cudaError_t error =
      read_resources(reinterpret_cast<const void*>(spike_kernel<StaticGeometry>), spike);
  if (error != cudaSuccess) {
    return error;
  }
  return read_resources(
      reinterpret_cast<const void*>(decode_kernel<StaticGeometry, Decode::kTaskWaitsAndSignals>),
      decode);
}

}  // namespace mok::cuda
