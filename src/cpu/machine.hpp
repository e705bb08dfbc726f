// machine.hpp: the CPU machine: the workers of one rank run both queues of the program in stamp order.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "cpu/call_data.hpp"
#include "cpu/cpu_env.hpp"
#include "program/protocol.hpp"

namespace mok::cpu {

// Called before each task's body; tests stall or disturb a worker with it. Never set outside tests.
using TaskHook = std::function<void(std::uint32_t rank, std::uint32_t worker, const Task& task)>;

// Shared state of one call's workers: cursors of the two queues, words, sync.
struct CallRun {
  const CallData* data = nullptr;
  WordTable words;
  const RankSync* sync = nullptr;
  std::uint32_t* compute_cursor = nullptr;
  std::uint32_t* comm_cursor = nullptr;
  const TaskHook* hook = nullptr;  // nullptr: none
};

// Runs tasks until both queues are empty, then leaves; ends early, with the reason, on abort or time-out.
// A worker always takes the unclaimed task of least stamp, so any number of workers, one included, ends.
WaitResult run_worker(const CallRun& run, std::uint32_t worker, Worker& own);

// Threads that belong to a workspace. The caller of run() is worker 0.
class Team {
 public:
  // Throws std::system_error where the system gives no further thread.
  explicit Team(std::uint32_t workers);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  // Calls job(worker) on every worker; returns when all have returned.
  void run(const std::function<void(std::uint32_t)>& job);

 private:
  void serve(std::uint32_t worker);
  void stop();

  std::uint32_t workers_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable done_;
  const std::function<void(std::uint32_t)>* job_ = nullptr;
  std::uint64_t round_ = 0;
  std::uint32_t running_ = 0;
  bool stop_ = false;
  std::vector<std::jthread> threads_;
};

}  // namespace mok::cpu
