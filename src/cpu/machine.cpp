// machine.cpp: claims, bodies, and the thread team.
#include "cpu/machine.hpp"

#include "cpu/tiles.hpp"
#include "cpu/transfer.hpp"
#include "program/stamp.hpp"

namespace mok::cpu {

namespace {

void run_body(const CallData& d, const Task& task, Worker& worker) {
  switch (task.kind) {
    case TaskKind::kSharedLogit: shared_logit(d, task); break;
    case TaskKind::kSharedGateUp: shared_gate_up_tile(d, task, worker); break;
    case TaskKind::kSharedDown: shared_down_tile(d, task, worker); break;
    case TaskKind::kSharedHiddenGrad: shared_hidden_grad_tile(d, task, worker); break;
    case TaskKind::kSharedInputGrad: shared_input_grad_tile(d, task, worker); break;
    case TaskKind::kSharedWeightGrad: shared_weight_grad_tile(d, task, worker); break;
    case TaskKind::kSharedLogitGrad: shared_logit_grad(d, task, worker); break;
    case TaskKind::kZeroGrad: zero_grad_tile(d, task); break;
    case TaskKind::kGateUp: gate_up_tile(d, task, worker); break;
    case TaskKind::kDown: down_tile(d, task, worker); break;
    case TaskKind::kHiddenGrad: hidden_grad_tile(d, task, worker); break;
    case TaskKind::kInputGrad: input_grad_tile(d, task, worker); break;
    case TaskKind::kWeightGrad: weight_grad_tile(d, task, worker); break;
    case TaskKind::kReduce: reduce_stripe(d, task, worker); break;
    case TaskKind::kPullX: pull_x(d, task, worker); break;
    case TaskKind::kPullDy: pull_dy(d, task, worker); break;
    case TaskKind::kPushX: push_x(d, task, worker); break;
    case TaskKind::kPushDy: push_dy(d, task, worker); break;
    case TaskKind::kReceiveX: receive_x(d, task); break;
    case TaskKind::kReceiveDy: receive_dy(d, task); break;
    case TaskKind::kCombinePush: combine_push(d, task, worker); break;
    case TaskKind::kCombinePull: combine_pull(d, task, worker); break;
    case TaskKind::kStop:
    case TaskKind::kNumTaskKinds: break;
  }
}

// The next ticket of one queue, decoded.
struct Head {
  Head(std::uint32_t* queue_cursor, std::uint32_t queue_size)
      : cursor(queue_cursor), size(queue_size) {}

  std::uint32_t* cursor;
  std::uint32_t size;
  std::uint32_t ticket = 0;
  Task task;
  Stamp stamp = ~Stamp{0};
  StepHint hint;

  template <class Queue>
  void look(const View& view, const Queue& queue) {
    const std::uint32_t now = std::atomic_ref(*cursor).load(std::memory_order_relaxed);
    if (now == ticket && stamp != ~Stamp{0}) {
      return;
    }
    ticket = now;
    stamp = ~Stamp{0};
    if (ticket < size) {
      task = queue.task(ticket, hint);
      stamp = stamp_of(view, task);
    }
  }
  [[nodiscard]] bool empty() const { return stamp == ~Stamp{0}; }
  // Exactly the ticket that was looked at: a later one could have a larger stamp than the other queue's
  // head, and the proof of stamp.hpp would not hold for a lone worker.
  [[nodiscard]] bool claim() {
    std::uint32_t expected = ticket;
    return std::atomic_ref(*cursor).compare_exchange_strong(expected, ticket + 1,
                                                            std::memory_order_relaxed);
  }
};

}  // namespace

WaitResult run_worker(const CallRun& run, std::uint32_t worker, Worker& own) {
  const View& view = run.data->view;
  CpuEnv env(*run.sync, worker);
  const ComputeQueue<Geometry> compute(view);
  const CommQueue<Geometry> comm(view);
  Head compute_head(run.compute_cursor, compute.size());
  Head comm_head(run.comm_cursor, comm.size());
  WaitResult result = WaitResult::kReady;
  for (;;) {
    compute_head.look(view, compute);
    comm_head.look(view, comm);
    if (compute_head.empty() && comm_head.empty()) {
      break;
    }
    if (env.aborted()) {
      result = WaitResult::kAborted;
      break;
    }
    Head& head = comm_head.stamp <= compute_head.stamp ? comm_head : compute_head;
    const Task task = head.task;
    if (!head.claim()) {
      continue;
    }
    result = wait_task(env, view, run.words, task);
    if (result != WaitResult::kReady) {
      break;
    }
    env.set_state(Site::kTask, view.routes.rank);
    if (run.hook != nullptr) {
      (*run.hook)(view.routes.rank, worker, task);
    }
    run_body(*run.data, task, own);
    publish_task(env, view, run.words, task);
    env.set_state(Site::kNone, view.routes.rank);
    own.show_life();
  }
  env.set_state(Site::kNone, view.routes.rank);
  if (result == WaitResult::kReady) {
    leave(env, view, run.words, run.sync->workers);
  }
  return result;
}

Team::Team(std::uint32_t workers) : workers_(workers) {
  try {
    for (std::uint32_t worker = 1; worker < workers; ++worker) {
      threads_.emplace_back([this, worker] { serve(worker); });
    }
  } catch (...) {
    // The system gives no further thread: those that run must end before they are joined.
    stop();
    throw;
  }
}

Team::~Team() {
  stop();
}

void Team::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
}

void Team::run(const std::function<void(std::uint32_t)>& job) {
  {
    const std::lock_guard lock(mutex_);
    job_ = &job;
    running_ = workers_ - 1;
    ++round_;
  }
  wake_.notify_all();
  job(0);
  std::unique_lock lock(mutex_);
  done_.wait(lock, [this] { return running_ == 0; });
  job_ = nullptr;
}

void Team::serve(std::uint32_t worker) {
  std::uint64_t round = 0;
  for (;;) {
    const std::function<void(std::uint32_t)>* job = nullptr;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [&] { return stop_ || round_ != round; });
      if (stop_) {
        return;
      }
      round = round_;
      job = job_;
    }
    (*job)(worker);
    {
      const std::lock_guard lock(mutex_);
      --running_;
    }
    done_.notify_one();
  }
}

}  // namespace mok::cpu
