// spike_machine.cuh: the memory of R loop-back ranks on one GPU, launches of the spike, what they left.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/carver.hpp"
#include "cuda/spike_kernel.cuh"
#include "cuda_check.cuh"
#include "program/expected_words.hpp"
#include "program/loopback_world.hpp"

namespace mok::gpu_test {

using World = loopback::LoopbackWorld<StaticGeometry>;
using View = CallView<StaticGeometry>;
inline constexpr std::chrono::milliseconds kPollDeadline{10'000};

// Host-mapped words, one a rank: the host's abort words.
class HostWords {
 public:
  explicit HostWords(std::uint32_t count) : count_(count) {
    check(cudaHostAlloc(&host_, count * kStride, cudaHostAllocMapped), "cudaHostAlloc");
    check(cudaHostGetDevicePointer(&device_, host_, 0), "cudaHostGetDevicePointer");
    set(0);
  }
  ~HostWords() { check(cudaFreeHost(host_), "cudaFreeHost"); }
  HostWords(const HostWords&) = delete;
  HostWords& operator=(const HostWords&) = delete;

  void set(std::uint32_t value) {
    for (std::uint32_t i = 0; i < count_; ++i) {
      *reinterpret_cast<volatile std::uint32_t*>(static_cast<std::byte*>(host_) + i * kStride) =
          value;
    }
  }
  [[nodiscard]] const std::uint32_t* device(std::uint32_t i) const {
    return reinterpret_cast<const std::uint32_t*>(static_cast<std::byte*>(device_) + i * kStride);
  }

 private:
  static constexpr std::size_t kStride = 64;
  std::uint32_t count_;
  void* host_ = nullptr;
  void* device_ = nullptr;
};

struct Deadlines {
  std::uint64_t join_ns = 1'000'000'000;
  std::uint64_t progress_ns = 1'000'000'000;  // a wait of a rank for itself: 2 s, both together
};

struct SpikeCall {
  loopback::CallSetup call;
  std::uint32_t grid = 0;
  Deadlines deadlines;
};

class SpikeMachine {
 public:
  SpikeMachine(const World& world, SpikeCall call)
      : call_(call), num_ranks_(world.num_ranks()), host_words_(num_ranks_) {
    for (std::uint32_t rank = 0; rank < num_ranks_; ++rank) {
      views_.push_back(world.view(rank, call.call));
      compute_.push_back(ComputeQueue<StaticGeometry>(views_[rank]).size());
      comm_.push_back(CommQueue<StaticGeometry>(views_[rank]).size());
    }
    carve(world);
    memory_ = std::make_unique<DeviceArray<std::byte>>(bytes_);
    for (std::uint32_t rank = 0; rank < num_ranks_; ++rank) {
      const std::vector<std::byte>& tables = world.tables(rank);
      check(cudaMemcpy(memory_->get() + places_[rank].tables, tables.data(), tables.size(),
                       cudaMemcpyHostToDevice),
            "copy of tables");
      tables_.push_back(tables.data());
    }
    upload_pointer_tables();
    check(cudaMemset(at(flags_begin_), 0, flags_end_ - flags_begin_), "cudaMemset");
  }

  [[nodiscard]] std::uint64_t compute_tickets() const { return sum(compute_); }
  [[nodiscard]] std::uint64_t comm_tickets() const { return sum(comm_); }
  [[nodiscard]] const std::vector<View>& views() const { return views_; }
  [[nodiscard]] std::uint32_t num_leavers() const { return 2 * call_.grid / num_ranks_; }
  void set_deadlines(Deadlines deadlines) { call_.deadlines = deadlines; }
  HostWords& host_words() { return host_words_; }

  enum class Log : std::uint32_t { kOff, kOn };
  enum class Flags : std::uint32_t { kKeep, kZero };

  // Opens the next call: a new epoch, cursors and logs zero, counters (tag, 0). Flags of former calls
  // stay unless told otherwise: the protocol must not need them cleared.
  void open(Log log, Flags flags) {
    ++epoch_;
    for (std::uint32_t rank = 0; rank < num_ranks_; ++rank) {
      views_[rank].epoch = epoch_;
    }
    check(cudaMemset(at(zero_begin_), 0, zero_end_ - zero_begin_), "cudaMemset");
    if (flags == Flags::kZero) {
      check(cudaMemset(at(flags_begin_), 0, flags_end_ - flags_begin_), "cudaMemset");
    }
    check(cuda::launch_fill(reinterpret_cast<std::uint32_t*>(at(counters_begin_)),
                            static_cast<std::uint32_t>((counters_end_ - counters_begin_) / 4),
                            counter_value(epoch_, 0)),
          "fill of counters");
    std::vector<std::byte> ranks(sizeof(Rank) * num_ranks_);
    for (std::uint32_t rank = 0; rank < num_ranks_; ++rank) {
      const Rank made = make_rank(rank, log);
      std::memcpy(ranks.data() + sizeof(Rank) * rank, &made, sizeof(Rank));
    }
    check(cudaMemcpy(at(ranks_), ranks.data(), ranks.size(), cudaMemcpyHostToDevice),
          "copy of ranks");
  }

  [[nodiscard]] cuda::SpikeArguments<StaticGeometry> arguments(std::uint32_t stalled_rank) {
    return {reinterpret_cast<const Rank*>(at(ranks_)), num_ranks_, stalled_rank,
            reinterpret_cast<std::uint32_t*>(at(ends_))};
  }

  // Launches, waits; milliseconds between the events around it.
  template <class Launch>
  double timed(const char* what, Launch launch) {
    check(cudaEventRecord(events_.start), "cudaEventRecord");
    check(launch(), what);
    check(cudaEventRecord(events_.stop), "cudaEventRecord");
    wait_for_gpu(what, kPollDeadline);
    float ms = 0;
    check(cudaEventElapsedTime(&ms, events_.start, events_.stop), "cudaEventElapsedTime");
    return static_cast<double>(ms);
  }
  double run(std::uint32_t stalled_rank = cuda::kSpikeNoRank) {
    return timed("spike", [&] { return cuda::launch_spike(arguments(stalled_rank), call_.grid); });
  }
  double run_decode(cuda::Decode decode) {
    return timed("decode", [&] {
      return cuda::launch_decode(arguments(cuda::kSpikeNoRank), call_.grid, decode);
    });
  }

  [[nodiscard]] cuda::StatusRecord record() { return download<cuda::StatusRecord>(record_, 1)[0]; }
  [[nodiscard]] std::vector<std::uint32_t> ends() {
    return download<std::uint32_t>(ends_, std::size_t{call_.grid} * cuda::kSpikeRolesPerCta);
  }

  // What a clean logged call must have left; the first difference in words, empty if none.
  [[nodiscard]] std::string check_all() {
    for (const std::uint32_t end : ends()) {
      if (end != static_cast<std::uint32_t>(RoleEnd::kDone) + 1) {
        return "a role ended as " + std::to_string(end);
      }
    }
    if (record().state != 0) {
      return "a status record was written";
    }
    std::vector<std::string> problems(num_ranks_);
    const std::vector<loopback::RankWords> expected =
        loopback::expected_words(views_, num_leavers());
    std::vector<Snapshot> seen;
    for (std::uint32_t rank = 0; rank < num_ranks_; ++rank) {
      seen.push_back(snapshot(rank));
    }
    {
      std::vector<std::jthread> threads;
      for (std::uint32_t rank = 0; rank < num_ranks_; ++rank) {
        threads.emplace_back(
            [&, rank] { problems[rank] = compare(rank, seen[rank], expected[rank]); });
      }
    }
    for (const std::string& problem : problems) {
      if (!problem.empty()) {
        return problem;
      }
    }
    return {};
  }

 private:
  using Rank = cuda::SpikeRank<StaticGeometry>;

  struct Events {
    cudaEvent_t start{};
    cudaEvent_t stop{};
    Events() {
      check(cudaEventCreate(&start), "cudaEventCreate");
      check(cudaEventCreate(&stop), "cudaEventCreate");
    }
    ~Events() {
      check(cudaEventDestroy(start), "cudaEventDestroy");
      check(cudaEventDestroy(stop), "cudaEventDestroy");
    }
    Events(const Events&) = delete;
    Events& operator=(const Events&) = delete;
  };

  // Offsets of one rank's arrays in the one allocation.
  struct Places {
    std::uint64_t tables, counters, flags, compute_cursor, comm_cursor, abort_word, wrong;
    std::uint64_t scheduled, compute_tasks, comm_tasks, compute_visits, comm_visits, compute_digest,
        comm_digest;
  };
  struct Snapshot {
    std::vector<Task> scheduled, compute_tasks, comm_tasks;
    std::vector<std::uint32_t> compute_visits, comm_visits, counters;
    std::vector<std::uint64_t> flags;
    std::uint64_t compute_digest = 0, comm_digest = 0;
    std::uint32_t wrong = 0;
  };

  static std::uint64_t sum(const std::vector<std::uint32_t>& sizes) {
    std::uint64_t total = 0;
    for (const std::uint32_t size : sizes) {
      total += size;
    }
    return total;
  }
  [[nodiscard]] std::byte* at(std::uint64_t offset) const { return memory_->get() + offset; }
  template <class T>
  [[nodiscard]] std::vector<T> download(std::uint64_t offset, std::size_t count) const {
    std::vector<T> result(count);
    if (count > 0) {
      check(cudaMemcpy(result.data(), at(offset), count * sizeof(T), cudaMemcpyDeviceToHost),
            "copy from the GPU");
    }
    return result;
  }

  void carve(const World& world) {
    Carver carver;
    places_.resize(num_ranks_);
    for (std::uint32_t rank = 0; rank < num_ranks_; ++rank) {
      places_[rank].tables = carver.take(world.tables(rank).size(), 1);
    }
    ranks_ = carver.take(num_ranks_, sizeof(Rank));
    peer_flags_ = carver.take(num_ranks_, 8);
    peer_abort_ = carver.take(num_ranks_, 8);
    counters_begin_ = carver.bytes();
    for (Places& place : places_) {
      place.counters = carver.take(views_[0].counters.size(), 4);
    }
    counters_end_ = carver.bytes();
    flags_begin_ = carver.bytes();
    for (Places& place : places_) {
      place.flags = carver.take(views_[0].flags.size(), 8);
    }
    flags_end_ = carver.bytes();
    zero_begin_ = carver.bytes();
    record_ = carver.take(1, sizeof(cuda::StatusRecord));
    ends_ = carver.take(std::uint64_t{call_.grid} * cuda::kSpikeRolesPerCta, 4);
    for (std::uint32_t rank = 0; rank < num_ranks_; ++rank) {
      Places& place = places_[rank];
      place.compute_cursor = carver.take(1, 4);
      place.comm_cursor = carver.take(1, 4);
      place.abort_word = carver.take(1, 4);
      place.wrong = carver.take(1, 4);
      place.compute_digest = carver.take(1, 8);
      place.comm_digest = carver.take(1, 8);
      place.compute_visits = carver.take(compute_[rank], 4);
      place.comm_visits = carver.take(comm_[rank], 4);
      place.scheduled = carver.take(compute_[rank], sizeof(Task));
      place.compute_tasks = carver.take(compute_[rank], sizeof(Task));
      place.comm_tasks = carver.take(comm_[rank], sizeof(Task));
    }
    zero_end_ = carver.bytes();
    bytes_ = carver.bytes();
  }

  void upload_pointer_tables() {
    std::vector<std::byte*> flags;
    std::vector<std::byte*> aborts;
    for (const Places& place : places_) {
      flags.push_back(at(place.flags));
      aborts.push_back(at(place.abort_word));
    }
    check(cudaMemcpy(at(peer_flags_), flags.data(), flags.size() * 8, cudaMemcpyHostToDevice),
          "copy of pointers");
    check(cudaMemcpy(at(peer_abort_), aborts.data(), aborts.size() * 8, cudaMemcpyHostToDevice),
          "copy of pointers");
  }

  [[nodiscard]] Rank make_rank(std::uint32_t rank, Log log) const {
    const Places& place = places_[rank];
    const auto words = [&](std::uint64_t offset) {
      return reinterpret_cast<std::uint32_t*>(at(offset));
    };
    Rank made{};
    made.view = loopback::rebased(views_[rank], tables_[rank], at(place.tables));
    made.words = {words(place.counters), reinterpret_cast<std::uint64_t* const*>(at(peer_flags_))};
    made.share = {words(place.compute_cursor), words(place.comm_cursor), num_leavers()};
    made.env = {.rank = rank,
                .num_ranks = num_ranks_,
                .epoch = epoch_,
                .asks_left = 0,
                .abort_word = words(place.abort_word),
                .peer_abort = reinterpret_cast<std::uint32_t* const*>(at(peer_abort_)),
                .host_abort = host_words_.device(rank),
                .record = reinterpret_cast<cuda::StatusRecord*>(at(record_)),
                .join_deadline_ns = call_.deadlines.join_ns,
                .progress_deadline_ns = call_.deadlines.progress_ns};
    made.log.wrong = words(place.wrong);
    made.log.compute.digest = reinterpret_cast<std::uint64_t*>(at(place.compute_digest));
    made.log.comm.digest = reinterpret_cast<std::uint64_t*>(at(place.comm_digest));
    if (log == Log::kOn) {
      made.log.scheduled = reinterpret_cast<Task*>(at(place.scheduled));
      made.log.compute.tasks = reinterpret_cast<Task*>(at(place.compute_tasks));
      made.log.compute.visits = words(place.compute_visits);
      made.log.comm.tasks = reinterpret_cast<Task*>(at(place.comm_tasks));
      made.log.comm.visits = words(place.comm_visits);
    }
    return made;
  }

  [[nodiscard]] Snapshot snapshot(std::uint32_t rank) const {
    const Places& place = places_[rank];
    Snapshot seen;
    seen.scheduled = download<Task>(place.scheduled, compute_[rank]);
    seen.compute_tasks = download<Task>(place.compute_tasks, compute_[rank]);
    seen.comm_tasks = download<Task>(place.comm_tasks, comm_[rank]);
    seen.compute_visits = download<std::uint32_t>(place.compute_visits, compute_[rank]);
    seen.comm_visits = download<std::uint32_t>(place.comm_visits, comm_[rank]);
    seen.counters = download<std::uint32_t>(place.counters, views_[rank].counters.size());
    seen.flags = download<std::uint64_t>(place.flags, views_[rank].flags.size());
    seen.compute_digest = download<std::uint64_t>(place.compute_digest, 1)[0];
    seen.comm_digest = download<std::uint64_t>(place.comm_digest, 1)[0];
    seen.wrong = download<std::uint32_t>(place.wrong, 1)[0];
    return seen;
  }

  template <class Queue>
  static std::string compare_queue(const Queue& queue, const std::vector<Task>& tasks,
                                   const std::vector<std::uint32_t>& visits,
                                   std::uint32_t visits_due, std::uint64_t digest,
                                   const char* what) {
    std::uint64_t expected_digest = 0;
    const std::uint32_t size = queue.size();
    for (std::uint32_t ticket = 0; ticket < size; ++ticket) {
      const Task task = queue.task(ticket);
      expected_digest += cuda::ticket_digest(task, ticket);
      if (!(task == tasks[ticket])) {
        return std::string(what) + " ticket " + std::to_string(ticket) + ": another task";
      }
      if (visits[ticket] != visits_due) {
        return std::string(what) + " ticket " + std::to_string(ticket) + ": visits " +
               std::to_string(visits[ticket]);
      }
    }
    return digest == expected_digest ? std::string() : std::string(what) + ": digest differs";
  }

  [[nodiscard]] std::string compare(std::uint32_t rank, const Snapshot& seen,
                                    const loopback::RankWords& expected) const {
    const std::string prefix = "rank " + std::to_string(rank) + ": ";
    const ComputeQueue<StaticGeometry> compute(views_[rank]);
    std::string problem = compare_queue(compute, seen.compute_tasks, seen.compute_visits, 0x10001U,
                                        seen.compute_digest, "compute");
    if (problem.empty() &&
        !std::equal(seen.scheduled.begin(), seen.scheduled.end(), seen.compute_tasks.begin())) {
      problem = "scheduler and storer saw other tasks";
    }
    if (problem.empty()) {
      problem = compare_queue(CommQueue<StaticGeometry>(views_[rank]), seen.comm_tasks,
                              seen.comm_visits, 1, seen.comm_digest, "comm");
    }
    if (problem.empty() && seen.wrong != 0) {
      problem = std::to_string(seen.wrong) + " tokens were wrong";
    }
    if (problem.empty() && seen.counters != expected.counters) {
      problem = "counters differ from the expected";
    }
    if (problem.empty() && seen.flags != expected.flags) {
      problem = "flags differ from the expected";
    }
    return problem.empty() ? problem : prefix + problem;
  }

  SpikeCall call_;
  std::uint32_t num_ranks_;
  Epoch epoch_ = 14;  // the counters' tag wraps early
  HostWords host_words_;
  Events events_;
  std::vector<View> views_;
  std::vector<std::uint32_t> compute_, comm_;  // sizes of the queues
  std::vector<const std::byte*> tables_;
  std::vector<Places> places_;
  std::uint64_t ranks_ = 0, peer_flags_ = 0, peer_abort_ = 0, record_ = 0, ends_ = 0, bytes_ = 0;
  std::uint64_t counters_begin_ = 0, counters_end_ = 0, flags_begin_ = 0, flags_end_ = 0,
                zero_begin_ = 0, zero_end_ = 0;
  std::unique_ptr<DeviceArray<std::byte>> memory_;
};

}  // namespace mok::gpu_test
