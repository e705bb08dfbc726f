// execute.cpp: ranks as threads, each with a workspace and one context a layer.
#include "cli/execute.hpp"

#include <algorithm>
#include <atomic>
#include <functional>
#include <limits>
#include <system_error>
#include <thread>

#include "core/geometry.hpp"

namespace mok::cli {

namespace {

constexpr Bf16 kNanBf16{0xffff};
constexpr float kNanFp32 = std::numeric_limits<float>::quiet_NaN();

GradArray make_gradient(Grad kind, std::int64_t size) {
  const auto count = static_cast<std::size_t>(size);
  GradArray array;
  switch (kind) {
    case Grad::kBf16: array.bf16.assign(count, kNanBf16); break;
    case Grad::kFp32: array.fp32.assign(count, kNanFp32); break;
    case Grad::kMainGrad: array.fp32.assign(count, 0.0F); break;
  }
  return array;
}

StepOutputs make_step(const Case& description) {
  const auto states =
      static_cast<std::size_t>(description.total_tokens() * description.shape.hidden);
  const auto slots = static_cast<std::size_t>(description.total_tokens() * description.shape.topk);
  return {std::vector<Bf16>(states, kNanBf16), std::vector<Bf16>(states, kNanBf16),
          std::vector<float>(slots, kNanFp32)};
}

LayerGrads make_layer(const Case& description) {
  const LayerShape& shape = description.shape;
  const std::int64_t matrices = shape.experts * shape.intermediate * shape.hidden;
  const std::int64_t shared = shape.shared_intermediate * shape.hidden;
  LayerGrads grads;
  grads.gate = make_gradient(description.grad, matrices);
  grads.up = make_gradient(description.grad, matrices);
  grads.down = make_gradient(description.grad, matrices);
  grads.shared_ranks.resize(description.tokens.size());
  // In fp32 whatever the form of the others: they still have to be summed over ranks.
  const float start = description.grad == Grad::kMainGrad ? 0.0F : kNanFp32;
  for (SharedGrads& rank : grads.shared_ranks) {
    for (std::size_t i = 0; i < 3; ++i) {
      rank[i].assign(static_cast<std::size_t>(shared), start);
    }
    rank[3].assign(static_cast<std::size_t>(shape.output_gate ? shape.hidden : 0), start);
  }
  return grads;
}

void* element(GradArray& array, std::int64_t index) {
  if (array.size() == 0) {
    return nullptr;
  }
  return array.bf16.empty() ? static_cast<void*>(array.fp32.data() + index)
                            : static_cast<void*>(array.bf16.data() + index);
}

// Everything of one rank; the thread that runs it is the only one to touch it.
struct Rank {
  int index = 0;
  std::int64_t first_token = 0;
  std::int64_t tokens = 0;
  std::int64_t first_expert = 0;
  std::vector<Workspace> workspace;  // one
  std::vector<Context> contexts;     // one a layer
  RankReport report;
  Status status;
};

void add(TransferCounts& sum, const TransferCounts& more) {
  sum.bytes += more.bytes;
  sum.remote_reads += more.remote_reads;
  sum.remote_writes += more.remote_writes;
}

void add_transfers(RankReport& sum, const CallReport& call) {
  add(sum.dispatch, call.dispatch);
  add(sum.combine, call.combine);
  add(sum.dy_dispatch, call.dy_dispatch);
  add(sum.dx_combine, call.dx_combine);
  sum.route_ms += call.route_ms;
}

Weights weights_of(const Case& description, const LayerWeights& all, std::int64_t first_expert) {
  const LayerShape& shape = description.shape;
  const std::int64_t hidden = shape.hidden;
  const std::int64_t matrix = shape.intermediate * hidden;
  const auto routed = [&](const std::vector<Bf16>& array, std::int64_t columns) {
    return ExpertMatrix{array.data() + first_expert * matrix, matrix, columns, nullptr};
  };
  const auto shared = [&](const std::vector<Bf16>& array, std::int64_t columns) {
    return array.empty()
               ? ExpertMatrix{}
               : ExpertMatrix{array.data(), shape.shared_intermediate * hidden, columns, nullptr};
  };
  Weights weights;
  weights.gate = routed(all.gate, hidden);
  weights.up = routed(all.up, hidden);
  weights.down = routed(all.down, shape.intermediate);
  weights.shared_gate = shared(all.shared_gate, hidden);
  weights.shared_up = shared(all.shared_up, hidden);
  weights.shared_down = shared(all.shared_down, shape.shared_intermediate);
  weights.shared_output_gate =
      all.shared_output_gate.empty() ? nullptr : all.shared_output_gate.data();
  return weights;
}

WeightGrads grads_of(const Case& description, LayerGrads& all, const Rank& rank) {
  const LayerShape& shape = description.shape;
  const std::int64_t hidden = shape.hidden;
  const std::int64_t matrix = shape.intermediate * hidden;
  SharedGrads& own = all.shared_ranks[static_cast<std::size_t>(rank.index)];
  const auto routed = [&](GradArray& array, std::int64_t columns) {
    return GradMatrix{element(array, rank.first_expert * matrix), matrix, columns, nullptr};
  };
  const auto shared = [&](std::vector<float>& array, std::int64_t columns) {
    return array.empty()
               ? GradMatrix{}
               : GradMatrix{array.data(), shape.shared_intermediate * hidden, columns, nullptr};
  };
  WeightGrads grads;
  grads.kind = description.grad;
  grads.shared_kind = description.grad == Grad::kMainGrad ? Grad::kMainGrad : Grad::kFp32;
  grads.gate = routed(all.gate, hidden);
  grads.up = routed(all.up, hidden);
  grads.down = routed(all.down, shape.intermediate);
  grads.shared_gate = shared(own[0], hidden);
  grads.shared_up = shared(own[1], hidden);
  grads.shared_down = shared(own[2], shape.shared_intermediate);
  grads.shared_output_gate = own[3].empty() ? nullptr : own[3].data();
  return grads;
}

class Runner {
 public:
  Runner(const Case& description, const Batch& batch, Execution& execution, Progress& progress)
      : case_(description), batch_(batch), execution_(execution), progress_(progress) {}

  // All calls of one rank, in the order that every rank keeps.
  void run(Rank& rank) {
    for (std::int64_t microbatch = 0; microbatch < case_.microbatches; ++microbatch) {
      for (std::int64_t layer = 0; layer < case_.layers && rank.status.ok(); ++layer) {
        run_forward(rank, layer, microbatch);
      }
      for (std::int64_t layer = case_.layers - 1; layer >= 0 && rank.status.ok(); --layer) {
        run_backward(rank, layer, microbatch);
      }
    }
  }

 private:
  [[nodiscard]] StepOutputs& outputs(std::int64_t layer, std::int64_t microbatch) {
    return execution_.steps[static_cast<std::size_t>(layer * case_.microbatches + microbatch)];
  }

  void run_forward(Rank& rank, std::int64_t layer, std::int64_t microbatch) {
    const StepInputs& inputs = batch_.step(layer, microbatch);
    const std::int64_t state = rank.first_token * case_.shape.hidden;
    const std::int64_t slot = rank.first_token * case_.shape.topk;
    ForwardArgs args;
    args.tokens = rank.tokens;
    args.x = inputs.x.data() + state;
    args.routing.ids = inputs.ids.data() + slot;
    args.routing.weights = inputs.weights.data() + slot;
    args.weights = weights_of(case_, batch_.layer(layer), rank.first_expert);
    args.y = outputs(layer, microbatch).y.data() + state;
    args.context = &rank.contexts[static_cast<std::size_t>(layer)];
    const Result<CallReport> call = forward(rank.workspace.front(), args);
    if (!call) {
      rank.status = call.error();
      return;
    }
    add_transfers(rank.report, *call);
    rank.report.rows += call->rows;
    rank.report.phases += call->phases;
    rank.report.ring_turns += call->ring_turns;
    rank.report.forward_ms += call->run_ms;
    if (rank.index == 0) {
      progress_.advance(1.0);
    }
  }

  void run_backward(Rank& rank, std::int64_t layer, std::int64_t microbatch) {
    const StepInputs& inputs = batch_.step(layer, microbatch);
    StepOutputs& results = outputs(layer, microbatch);
    const std::int64_t state = rank.first_token * case_.shape.hidden;
    BackwardArgs args;
    args.context = &rank.contexts[static_cast<std::size_t>(layer)];
    args.x = inputs.x.data() + state;
    args.dy = inputs.dy.data() + state;
    args.weights = weights_of(case_, batch_.layer(layer), rank.first_expert);
    args.dx = results.dx.data() + state;
    args.d_router = results.d_router.data() + rank.first_token * case_.shape.topk;
    args.grads = grads_of(case_, execution_.layers[static_cast<std::size_t>(layer)], rank);
    const Result<CallReport> call = backward(rank.workspace.front(), args);
    if (!call) {
      rank.status = call.error();
      return;
    }
    add_transfers(rank.report, *call);
    rank.report.replayed_rows += call->replayed_rows;
    rank.report.backward_ms += call->run_ms;
    if (rank.index == 0) {
      progress_.advance(2.0);
    }
  }

  const Case& case_;
  const Batch& batch_;
  Execution& execution_;
  Progress& progress_;
};

// Workspaces and contexts before any thread: what fails here keeps nobody waiting.
Result<std::vector<Rank>> make_ranks(const Case& description, Execution& execution) {
  const int num_ranks = description.num_ranks();
  Result<std::vector<World>> worlds = World::local(num_ranks);
  if (!worlds) {
    return failure(worlds.error());
  }
  const Result<MemoryFormula> formula =
      memory_formula(description.shape, description.options, num_ranks);
  if (!formula) {
    return failure(formula.error());
  }
  std::vector<Rank> ranks(static_cast<std::size_t>(num_ranks));
  std::int64_t first_token = 0;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    Rank& rank = ranks[i];
    rank.index = static_cast<int>(i);
    rank.first_token = first_token;
    rank.tokens = description.tokens[i];
    rank.first_expert =
        expert_begin(static_cast<std::uint32_t>(description.shape.experts),
                     static_cast<std::uint32_t>(num_ranks), static_cast<std::uint32_t>(i));
    first_token += rank.tokens;
    Result<Workspace> workspace =
        Workspace::create((*worlds)[i], description.shape, description.options);
    if (!workspace) {
      return failure(workspace.error());
    }
    execution.peak_bytes += workspace->allocated_bytes();
    execution.formula_bytes += formula->workspace_bytes;
    for (std::int64_t layer = 0; layer < description.layers; ++layer) {
      Result<Context> context = Context::create(*workspace);
      if (!context) {
        return failure(context.error());
      }
      execution.peak_bytes += context->allocated_bytes();
      execution.formula_bytes += formula->context_bytes;
      rank.contexts.push_back(std::move(*context));
    }
    rank.workspace.push_back(std::move(*workspace));
  }
  execution.options = ranks.front().workspace.front().options();
  execution.engine = ranks.front().workspace.front().engine();
  return ranks;
}

// One thread a rank. They start together: a thread that cannot be made must not leave the others
// waiting for its rank until the join deadline.
Status run_threads(std::vector<Rank>& ranks, Runner& runner) {
  enum class Start : int { kWait, kGo, kCancel };
  std::atomic<Start> start{Start::kWait};
  std::vector<std::jthread> threads;
  Status status;
  try {
    for (Rank& rank : ranks) {
      threads.emplace_back([&start, &rank, &runner] {
        start.wait(Start::kWait);
        if (start.load() == Start::kGo) {
          runner.run(rank);
        }
      });
    }
  } catch (const std::system_error& error) {
    status = Status::environment("--ranks", std::to_string(ranks.size()),
                                 std::string{"no thread for every rank: "} + error.what());
  }
  start.store(status.ok() ? Start::kGo : Start::kCancel);
  start.notify_all();
  threads.clear();
  return status;
}

// The rank that saw the cause says more than those that it stopped.
Status first_failure(const std::vector<Rank>& ranks) {
  const Status* found = nullptr;
  for (const Rank& rank : ranks) {
    const Code code = rank.status.code();
    const bool is_echo = code == Code::kAborted || code == Code::kPoisoned;
    if (!rank.status.ok() && (found == nullptr || (found->code() == Code::kAborted && !is_echo))) {
      found = &rank.status;
    }
  }
  return found == nullptr ? Status{} : *found;
}

void sum_shared(LayerGrads& grads) {
  grads.shared = grads.shared_ranks.front();
  for (std::size_t rank = 1; rank < grads.shared_ranks.size(); ++rank) {
    for (std::size_t which = 0; which < kNumShared; ++which) {
      std::vector<float>& sum = grads.shared[which];
      const std::vector<float>& own = grads.shared_ranks[rank][which];
      std::transform(sum.begin(), sum.end(), own.begin(), sum.begin(), std::plus<>{});
    }
  }
}

}  // namespace

Result<Execution> execute(const Case& description, const Batch& batch, Progress& progress) {
  Execution execution;
  execution.microbatches = description.microbatches;
  for (std::int64_t layer = 0; layer < description.layers; ++layer) {
    execution.layers.push_back(make_layer(description));
    for (std::int64_t microbatch = 0; microbatch < description.microbatches; ++microbatch) {
      execution.steps.push_back(make_step(description));
    }
  }
  Result<std::vector<Rank>> ranks = make_ranks(description, execution);
  if (!ranks) {
    return failure(ranks.error());
  }
  Runner runner(description, batch, execution, progress);
  if (Status status = run_threads(*ranks, runner); !status.ok()) {
    return failure(std::move(status));
  }
  if (Status status = first_failure(*ranks); !status.ok()) {
    return failure(std::move(status));
  }
  for (const Rank& rank : *ranks) {
    execution.ranks.push_back(rank.report);
  }
  for (LayerGrads& grads : execution.layers) {
    sum_shared(grads);
  }
  return execution;
}

}  // namespace mok::cli
