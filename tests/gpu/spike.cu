// spike.cu: runs the spike kernel over the suite's cases on a GPU and compares it with the CPU: every
// ticket visited exactly once, the same task, counters and flags as expected; nanoseconds a ticket;
// a stalled rank ends all others. Every launch has deadlines of its own (2 s at most a wait, 10 s on the
// host). Arguments: --json FILE, --quick (two cases).
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "cuda/spike_kernel.cuh"
#include "cuda_check.cuh"
#include "spike_cases.hpp"
#include "spike_machine.cuh"
#include "spike_report.hpp"

namespace mok::gpu_test {
namespace {

constexpr std::uint64_t kSeed = 20'261'201;
constexpr std::array<std::uint32_t, 4> kRanks = {1, 2, 3, 8};
constexpr int kTimedLaunches = 11;
constexpr int kRegisterPool = 128 * (40 + 2 * 232);  // of a CTA, after setmaxnreg

struct Gpu {
  Machine machine;
  std::uint32_t num_sms = 0;
  cuda::SpikeResources spike;
  cuda::SpikeResources decode;
};

// CTAs of a launch: all SMs, a multiple of R.
std::uint32_t grid_of(const Gpu& gpu, std::uint32_t num_ranks) {
  return gpu.num_sms / num_ranks * num_ranks;
}

// Two waves of tiles of a rank's share of the SMs.
std::uint32_t phase_tiles(const Gpu& gpu, std::uint32_t num_ranks) {
  return 2 * (gpu.num_sms / num_ranks);
}

enum class Measure : std::uint32_t { kWhole, kWholeAndDecode };

template <class Run>
double median_ms(SpikeMachine& machine, Run run) {
  std::vector<double> times;
  for (int i = 0; i < kTimedLaunches; ++i) {
    machine.open(SpikeMachine::Log::kOff, SpikeMachine::Flags::kKeep);
    times.push_back(run());
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

void run_call(SpikeReport& report, const Gpu& gpu, const std::string& name, const World& world,
              const loopback::CallSetup& call, Measure measure) {
  SpikeMachine machine(world,
                       {.call = call, .grid = grid_of(gpu, world.num_ranks()), .deadlines = {}});
  SpikeResult result{.name = name,
                     .num_ranks = world.num_ranks(),
                     .kind = kind_text(call.kind),
                     .ways = ways_text(call),
                     .compute_tickets = machine.compute_tickets(),
                     .comm_tickets = machine.comm_tickets(),
                     .problem = {}};
  machine.open(SpikeMachine::Log::kOn, SpikeMachine::Flags::kZero);
  machine.run();
  result.problem = machine.check_all();
  if (result.problem.empty()) {
    const double tickets_per_cta =
        static_cast<double>(result.compute_tickets) / grid_of(gpu, world.num_ranks());
    const auto ns = [&](double ms) { return ms * 1e6 / tickets_per_cta; };
    result.kernel_ms = median_ms(machine, [&] { return machine.run(); });
    result.whole_ns = ns(result.kernel_ms);
    if (machine.record().state != 0) {
      result.problem = "a timed launch wrote a status record";
    }
    if (measure == Measure::kWholeAndDecode) {
      const auto decode_ns = [&](cuda::Decode decode) {
        return ns(median_ms(machine, [&] { return machine.run_decode(decode); }));
      };
      result.decode_ns = decode_ns(cuda::Decode::kTask);
      result.decode_waits_ns = decode_ns(cuda::Decode::kTaskAndWaits);
      result.decode_signals_ns = decode_ns(cuda::Decode::kTaskWaitsAndSignals);
    }
  }
  report.add(std::move(result));
}

void run_suite(SpikeReport& report, const Gpu& gpu, const std::vector<SuiteCase>& cases) {
  for (const std::uint32_t num_ranks : kRanks) {
    for (const SuiteCase& suite : cases) {
      if (suite.experts(num_ranks) < suite.model->topk) {
        std::printf("%-21s %2u skipped: fewer experts than slots\n", suite.name().c_str(),
                    num_ranks);
        continue;
      }
      const loopback::WorldSetup setup =
          suite_setup(suite, num_ranks, phase_tiles(gpu, num_ranks), Saved::kDefault);
      const World world(StaticGeometry{}, setup, uniform_ids(setup, kSeed));
      for (const CallKind kind : {CallKind::kForward, CallKind::kBackward}) {
        run_call(report, gpu, suite.name(), world, {.kind = kind}, Measure::kWholeAndDecode);
      }
    }
  }
}

// All transfer directions, with a context that holds half of the rows, so that the backward replays.
void run_directions(SpikeReport& report, const Gpu& gpu, const SuiteCase& suite) {
  std::printf("%s, a context saves half of the rows:\n", suite.name().c_str());
  for (const std::uint32_t num_ranks : kRanks) {
    const loopback::WorldSetup setup =
        suite_setup(suite, num_ranks, phase_tiles(gpu, num_ranks), Saved::kHalf);
    const World world(StaticGeometry{}, setup, uniform_ids(setup, kSeed + 100));
    for (const CallKind kind : {CallKind::kForward, CallKind::kBackward, CallKind::kRecompute}) {
      for (const Dispatch x_way : {Dispatch::kPull, Dispatch::kPush}) {
        for (const Combine out_way : {Combine::kScatter, Combine::kPush, Combine::kPull}) {
          for (const Dispatch dy_way : {Dispatch::kPull, Dispatch::kPush}) {
            const bool used = kind == CallKind::kBackward || dy_way == Dispatch::kPull;
            if (!used || (kind == CallKind::kRecompute && out_way != Combine::kScatter)) {
              continue;
            }
            run_call(report, gpu, suite.name(), world,
                     {.kind = kind, .x_way = x_way, .dy_way = dy_way, .out_way = out_way},
                     Measure::kWhole);
          }
        }
      }
    }
  }
}

std::string record_text(const cuda::StatusRecord& record) {
  std::ostringstream text;
  text << "rank " << record.rank << " at " << site_name(static_cast<Site>(record.site))
       << ", reported by " << record.reporter << ", epoch " << record.epoch << ", expected "
       << record.expected << ", seen " << record.seen;
  return text.str();
}

// Every role of every rank but the stalled one has ended.
std::string check_ended(SpikeMachine& machine, std::uint32_t num_ranks, std::uint32_t stalled) {
  const std::vector<std::uint32_t> ends = machine.ends();
  for (std::size_t i = 0; i < ends.size(); ++i) {
    const bool is_stalled = i / cuda::kSpikeRolesPerCta % num_ranks == stalled;
    if (is_stalled != (ends[i] == 0)) {
      return "CTA " + std::to_string(i / cuda::kSpikeRolesPerCta) + " role " +
             std::to_string(i % cuda::kSpikeRolesPerCta) + " ended as " + std::to_string(ends[i]);
    }
  }
  return {};
}

std::string rerun(SpikeMachine& machine) {
  machine.set_deadlines({});
  machine.open(SpikeMachine::Log::kOn, SpikeMachine::Flags::kZero);
  machine.run();
  const std::string problem = machine.check_all();
  return problem.empty() ? problem : "next call: " + problem;
}

// One rank's CTAs leave at once: the others end within the deadline, with a record that names it; the
// next call is right.
void check_stalled(SpikeReport& report, const Gpu& gpu, const SuiteCase& suite,
                   std::uint32_t num_ranks, Dispatch way) {
  const std::uint32_t stalled = num_ranks - 1;
  const loopback::WorldSetup setup =
      suite_setup(suite, num_ranks, phase_tiles(gpu, num_ranks), Saved::kDefault);
  const World world(StaticGeometry{}, setup, uniform_ids(setup, kSeed));
  SpikeMachine machine(world, {.call = {.x_way = way},
                               .grid = grid_of(gpu, num_ranks),
                               .deadlines = {200'000'000, 200'000'000}});
  machine.open(SpikeMachine::Log::kOff, SpikeMachine::Flags::kZero);
  const double ms = machine.run(stalled);
  const cuda::StatusRecord record = machine.record();
  const Site site = way == Dispatch::kPull ? Site::kStart : Site::kArrive;
  Check result{"R=" + std::to_string(num_ranks) + " " + std::string(name(way)) + ", rank " +
                   std::to_string(stalled) + " stalled: a record names it",
               check_ended(machine, num_ranks, stalled),
               record_text(record) + ", " + std::to_string(ms) + " ms"};
  if (record.state != static_cast<std::uint32_t>(cuda::RecordState::kComplete)) {
    result.problem = "no status record";
  } else if (record.rank != stalled || record.site != static_cast<std::uint32_t>(site) ||
             record.result != static_cast<std::uint32_t>(WaitResult::kTimeout)) {
    result.problem = "wrong record: " + record_text(record);
  } else if (ms < 200 || ms > 700) {
    result.problem = "ended after " + std::to_string(ms) + " ms";
  }
  if (result.problem.empty()) {
    result.problem = rerun(machine);
  }
  report.add(std::move(result));
}

// The host's abort word ends a call whose deadlines are far away, without a record.
void check_host_abort(SpikeReport& report, const Gpu& gpu, const SuiteCase& suite) {
  constexpr std::uint32_t kNumRanks = 2;
  const loopback::WorldSetup setup =
      suite_setup(suite, kNumRanks, phase_tiles(gpu, kNumRanks), Saved::kDefault);
  const World world(StaticGeometry{}, setup, uniform_ids(setup, kSeed));
  SpikeMachine machine(world, {.call = {}, .grid = grid_of(gpu, kNumRanks), .deadlines = {}});
  machine.open(SpikeMachine::Log::kOff, SpikeMachine::Flags::kZero);
  std::jthread host([&machine] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    machine.host_words().set(1);
  });
  const double ms = machine.run(1);
  host.join();
  machine.host_words().set(0);
  Check result{"R=2, rank 1 stalled: the host's abort word ends the call",
               check_ended(machine, kNumRanks, 1), std::to_string(ms) + " ms"};
  if (machine.record().state != 0) {
    result.problem = "a status record was written: " + record_text(machine.record());
  } else if (ms < 50 || ms > 600) {
    result.problem = "ended after " + std::to_string(ms) + " ms";
  }
  if (result.problem.empty()) {
    result.problem = rerun(machine);
  }
  report.add(std::move(result));
}

Gpu prepare() {
  Gpu gpu;
  gpu.machine = require_hopper();
  int num_sms = 0;
  check(cudaDeviceGetAttribute(&num_sms, cudaDevAttrMultiProcessorCount, 0),
        "cudaDeviceGetAttribute");
  gpu.num_sms = static_cast<std::uint32_t>(num_sms);
  check(cuda::spike_resources(&gpu.spike, &gpu.decode), "cudaFuncGetAttributes");
  int ctas_per_sm = 0;
  check(cuda::spike_ctas_per_sm(&ctas_per_sm), "occupancy");
  std::printf("%s, %u SMs, driver %s, CUDA driver %d, runtime %d, seed %llu\n",
              gpu.machine.gpu.c_str(), gpu.num_sms, gpu.machine.driver.c_str(),
              gpu.machine.cuda_driver, gpu.machine.cuda_runtime,
              static_cast<unsigned long long>(kSeed));
  std::printf(
      "spike kernel: %d registers at launch, 40 / 232 / 232 after setmaxnreg, %d bytes of local "
      "memory a thread (lists of waits and signals; the ptxas report tells spills), %u bytes "
      "shared, "
      "%d CTAs an SM\n"
      "decode kernel: %d registers, %d bytes of local memory a thread\n",
      gpu.spike.registers, gpu.spike.local_bytes, cuda::kSpikeSharedBytes, ctas_per_sm,
      gpu.decode.registers, gpu.decode.local_bytes);
  if (ctas_per_sm < 1) {
    stop("The spike kernel does not fit an SM.", 1);
  }
  if (gpu.spike.registers * static_cast<int>(cuda::kSpikeThreads) < kRegisterPool) {
    stop("The spike kernel starts with too few registers: setmaxnreg would wait for ever.", 1);
  }
  std::printf(
      "uniform routing; loop-back ranks have the suite's full T and E = R x experts a GPU; compute "
      "and comm: tickets of all ranks\nns a compute ticket and CTA: decode (claim, task), + "
      "waits_of, "
      "+ signals_of, whole spike; median of %d launches\n",
      kTimedLaunches);
  return gpu;
}

std::string fields_of(const Gpu& gpu) {
  std::ostringstream text;
  text << "\"gpu\":\"" << gpu.machine.gpu << "\",\"sms\":" << gpu.num_sms << ",\"driver\":\""
       << gpu.machine.driver << "\",\"cuda_driver\":" << gpu.machine.cuda_driver
       << ",\"cuda_runtime\":" << gpu.machine.cuda_runtime << ",\"seed\":" << kSeed
       << ",\"spike_registers\":" << gpu.spike.registers
       << ",\"spike_local_bytes\":" << gpu.spike.local_bytes
       << ",\"decode_registers\":" << gpu.decode.registers
       << ",\"decode_local_bytes\":" << gpu.decode.local_bytes;
  return text.str();
}

struct Arguments {
  std::string json_path;
  bool quick = false;
};

Arguments parse_arguments(int count, char** values) {
  Arguments arguments;
  for (int i = 1; i < count; ++i) {
    const std::string_view name = values[i];
    if (name == "--quick") {
      arguments.quick = true;
    } else if (name == "--json" && i + 1 < count) {
      arguments.json_path = values[++i];
    } else {
      stop(std::string(name) + ": legal arguments are --json FILE and --quick", 2);
    }
  }
  return arguments;
}

int main_checked(int count, char** values) {
  const Arguments arguments = parse_arguments(count, values);
  const Gpu gpu = prepare();
  std::vector<SuiteCase> cases = suite_cases();
  const SuiteCase smallest = cases.back();
  if (arguments.quick) {
    cases = {cases.front(), smallest};
  }
  SpikeReport report;
  SpikeReport::print_header();
  run_suite(report, gpu, cases);
  run_directions(report, gpu, smallest);
  for (const std::uint32_t num_ranks : {2U, 3U, 8U}) {
    for (const Dispatch way : {Dispatch::kPull, Dispatch::kPush}) {
      check_stalled(report, gpu, smallest, num_ranks, way);
    }
  }
  check_host_abort(report, gpu, smallest);
  if (!arguments.json_path.empty()) {
    std::ofstream file(arguments.json_path);
    file << report.json(fields_of(gpu));
    file.close();
    if (!file) {
      stop("--json = " + arguments.json_path + ": cannot be written", 2);
    }
  }
  report.print_total();
  return report.ok() ? 0 : 1;
}

}  // namespace
}  // namespace mok::gpu_test

int main(int count, char** values) {
  return mok::gpu_test::main_checked(count, values);
}
