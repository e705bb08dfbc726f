// problem.cpp: names, rules and sizes of a reference problem.
#include <cmath>
#include <string>

#include "reference/layer.hpp"
#include "reference/reference.hpp"

namespace mok::reference {
namespace {

struct Size {
  const char* name;
  std::int64_t value;
  std::int64_t least;
  std::int64_t multiple;
};

struct Pointer {
  const char* name;
  const void* value;
  bool is_needed;
};

Status check_sizes(const Problem& problem) {
  const Size sizes[] = {{"num_tokens", problem.num_tokens, 0, 1},
                        {"hidden", problem.hidden, 8, 8},
                        {"intermediate", problem.intermediate, 8, 8},
                        {"shared_intermediate", problem.shared_intermediate, 0, 8},
                        {"num_experts", problem.num_experts, 1, 1},
                        {"topk", problem.topk, 1, 1},
                        {"num_ranks", problem.num_ranks, 1, 1}};
  for (const Size& size : sizes) {
    if (size.value < size.least || size.value % size.multiple != 0) {
      return Status::bad_argument(size.name, std::to_string(size.value),
                                  "must be a multiple of " + std::to_string(size.multiple) +
                                      ", at least " + std::to_string(size.least));
    }
  }
  return {};
}

}  // namespace

std::string_view output_name(Output output) {
  switch (output) {
    case Output::kY: return "y";
    case Output::kDx: return "dx";
    case Output::kDRouter: return "d_router";
    case Output::kDGate: return "d_gate";
    case Output::kDUp: return "d_up";
    case Output::kDDown: return "d_down";
    case Output::kDSharedGate: return "d_shared_gate";
    case Output::kDSharedUp: return "d_shared_up";
    case Output::kDSharedDown: return "d_shared_down";
    case Output::kDSharedOutputGate: return "d_shared_output_gate";
  }
  return "unknown";
}

Status check(const Problem& problem) {
  if (Status status = check_sizes(problem); !status.ok()) {
    return status;
  }
  const bool has_tokens = problem.num_tokens > 0;
  const bool has_shared = problem.shared_intermediate > 0;
  const Pointer pointers[] = {{"x", problem.x, has_tokens},
                              {"dy", problem.dy, has_tokens},
                              {"ids", problem.ids, has_tokens},
                              {"weights", problem.weights, has_tokens},
                              {"gate", problem.gate, true},
                              {"up", problem.up, true},
                              {"down", problem.down, true},
                              {"shared_gate", problem.shared_gate, has_shared},
                              {"shared_up", problem.shared_up, has_shared},
                              {"shared_down", problem.shared_down, has_shared}};
  for (const Pointer& pointer : pointers) {
    if (pointer.is_needed && pointer.value == nullptr) {
      return Status::bad_argument(pointer.name, "null", "must point to the array");
    }
  }
  if (!has_shared && problem.shared_output_gate != nullptr) {
    return Status::bad_argument("shared_output_gate", "given",
                                "needs a shared expert (shared_intermediate > 0)");
  }
  if (problem.swiglu_limit &&
      !(std::isfinite(*problem.swiglu_limit) && *problem.swiglu_limit > 0)) {
    return Status::bad_argument("swiglu_limit", std::to_string(*problem.swiglu_limit),
                                "must be finite and above 0");
  }
  for (std::int64_t i = 0; i < problem.num_tokens * problem.topk; ++i) {
    if (problem.ids[i] < -1 || problem.ids[i] >= problem.num_experts) {
      return Status::bad_argument(
          "ids[" + std::to_string(i) + "]", std::to_string(problem.ids[i]),
          "must be -1 or an expert below num_experts = " + std::to_string(problem.num_experts));
    }
  }
  return {};
}

Expected compute(const Problem& problem, int num_threads) {
  if (!check(problem).ok()) {
    return {};
  }
  return run_layer(problem, Parts::kEverything, num_threads);
}

double forward_flop(const Problem& problem) {
  std::int64_t num_rows = 0;
  for (std::int64_t i = 0; i < problem.num_tokens * problem.topk; ++i) {
    num_rows += problem.ids[i] >= 0 ? 1 : 0;
  }
  const auto hidden = static_cast<double>(problem.hidden);
  return 6.0 * hidden * static_cast<double>(problem.intermediate) * static_cast<double>(num_rows) +
         6.0 * hidden * static_cast<double>(problem.shared_intermediate) *
             static_cast<double>(problem.num_tokens);
}

}  // namespace mok::reference
