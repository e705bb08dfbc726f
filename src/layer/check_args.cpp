// check_args.cpp: rules of the calls' arguments.
#include "layer/check_args.hpp"

#include <algorithm>

namespace mok {

namespace {

Status missing(const char* argument) {
  return Status::bad_argument(argument, "nullptr", "must point to memory");
}

Status need(const void* pointer, const char* argument, bool needed) {
  return needed && pointer == nullptr ? missing(argument) : Status{};
}

struct MatrixRule {
  const char* argument;
  std::int64_t num_experts;
  std::int64_t rows;
  std::int64_t cols;
};

// ExpertMatrix and GradMatrix have the same members.
template <class Matrix>
Status check_matrix(const Matrix& m, const MatrixRule& rule) {
  if (rule.num_experts == 0) {
    return {};
  }
  if (m.base == nullptr && m.table == nullptr) {
    return missing(rule.argument);
  }
  if (m.row_stride < rule.cols) {
    return Status::bad_argument(std::string(rule.argument) + ".row_stride",
                                std::to_string(m.row_stride),
                                "must be at least " + std::to_string(rule.cols) + " elements");
  }
  constexpr std::int64_t kLargestStride = std::int64_t{1} << 40;  // places must fit 63 bits
  if (m.row_stride > kLargestStride / std::max<std::int64_t>(rule.rows, 1)) {
    return Status::bad_argument(std::string(rule.argument) + ".row_stride",
                                std::to_string(m.row_stride), "is beyond any memory");
  }
  if (m.table == nullptr && m.expert_stride > kLargestStride) {
    return Status::bad_argument(std::string(rule.argument) + ".expert_stride",
                                std::to_string(m.expert_stride), "is beyond any memory");
  }
  if (m.table == nullptr && rule.num_experts > 1 &&
      m.expert_stride < (rule.rows - 1) * m.row_stride + rule.cols) {
    return Status::bad_argument(std::string(rule.argument) + ".expert_stride",
                                std::to_string(m.expert_stride),
                                "must be at least the elements of one expert's matrix");
  }
  if (m.table != nullptr) {
    for (std::int64_t expert = 0; expert < rule.num_experts; ++expert) {
      if (m.table[expert] == nullptr) {
        return missing(rule.argument);
      }
    }
  }
  return {};
}

template <class Tensors>
Status check_matrices(const Plan& plan, int rank, const Tensors& w, const char* prefix) {
  const LayerShape& s = plan.shape;
  const std::int64_t local =
      local_experts(static_cast<std::uint32_t>(s.experts),
                    static_cast<std::uint32_t>(plan.num_ranks), static_cast<std::uint32_t>(rank));
  const std::int64_t shared = s.shared_intermediate > 0 ? 1 : 0;
  const std::string p(prefix);
  const std::string names[] = {p + "gate",        p + "up",        p + "down",
                               p + "shared_gate", p + "shared_up", p + "shared_down"};
  const Status checks[] = {
      check_matrix(w.gate, {names[0].c_str(), local, s.intermediate, s.hidden}),
      check_matrix(w.up, {names[1].c_str(), local, s.intermediate, s.hidden}),
      check_matrix(w.down, {names[2].c_str(), local, s.hidden, s.intermediate}),
      check_matrix(w.shared_gate, {names[3].c_str(), shared, s.shared_intermediate, s.hidden}),
      check_matrix(w.shared_up, {names[4].c_str(), shared, s.shared_intermediate, s.hidden}),
      check_matrix(w.shared_down, {names[5].c_str(), shared, s.hidden, s.shared_intermediate}),
      need(w.shared_output_gate, (p + "shared_output_gate").c_str(), s.output_gate),
  };
  for (const Status& check : checks) {
    if (!check.ok()) {
      return check;
    }
  }
  return {};
}

template <class Id>
Status check_ids(const Id* ids, std::int64_t tokens, const LayerShape& shape) {
  for (std::int64_t slot = 0; slot < tokens * shape.topk; ++slot) {
    if (ids[slot] < -1 || ids[slot] >= shape.experts) {
      return Status::bad_argument(
          "ids[" + std::to_string(slot / shape.topk) + ", " + std::to_string(slot % shape.topk) +
              "]",
          std::to_string(ids[slot]),
          "must be -1 (no route) or 0 .. " + std::to_string(shape.experts - 1));
    }
  }
  return {};
}

// A context fits when its plan gives the same places.
Status check_context(const Plan& plan, int rank, const Context* context) {
  if (context == nullptr) {
    return missing("context");
  }
  const Context::Impl& impl = context->impl();
  if (impl.plan.agreement() != plan.agreement()) {
    return Status::bad_argument("context", impl.plan.agreement(),
                                "must come from a workspace with the same shape and options");
  }
  if (impl.state != Context::Impl::State::kEmpty &&
      impl.view.rank != static_cast<std::uint32_t>(rank)) {
    return Status::bad_argument("context", "of rank " + std::to_string(impl.view.rank),
                                "must belong to rank " + std::to_string(rank));
  }
  return {};
}

Status check_filled(const Context& context) {
  return context.filled()
             ? Status{}
             : Status::bad_argument("context", "empty", "needs a forward that filled it");
}

Status check_kind(Grad kind, const char* argument) {
  return kind <= Grad::kMainGrad
             ? Status{}
             : Status::bad_argument(argument, std::to_string(static_cast<int>(kind)),
                                    "must be one of the enumerators of Grad");
}

Status first_of(std::initializer_list<Status> checks) {
  for (const Status& check : checks) {
    if (!check.ok()) {
      return check;
    }
  }
  return {};
}

}  // namespace

Status check_forward(const Plan& plan, int rank, const ForwardArgs& args) {
  if (args.tokens < 0 || args.tokens > plan.shape.max_tokens) {
    return Status::bad_argument(
        "tokens", std::to_string(args.tokens),
        "must be 0 .. max_tokens = " + std::to_string(plan.shape.max_tokens));
  }
  const bool rows = args.tokens > 0;
  Status status =
      first_of({need(args.x, "x", rows), need(args.y, "y", rows),
                need(args.routing.weights, "routing.weights", rows),
                need(args.routing.ids != nullptr ? static_cast<const void*>(args.routing.ids)
                                                 : args.routing.ids64,
                     "routing.ids", rows),
                check_matrices(plan, rank, args.weights, "weights.")});
  if (status.ok() && args.context != nullptr) {
    status = check_context(plan, rank, args.context);
  }
  if (!status.ok() || !rows) {
    return status;
  }
  return args.routing.ids != nullptr ? check_ids(args.routing.ids, args.tokens, plan.shape)
                                     : check_ids(args.routing.ids64, args.tokens, plan.shape);
}

Status check_backward(const Plan& plan, int rank, const BackwardArgs& args) {
  if (Status status = check_context(plan, rank, args.context); !status.ok()) {
    return status;
  }
  if (Status status = check_filled(*args.context); !status.ok()) {
    return status;
  }
  const bool rows = args.context->impl().tokens > 0;
  return first_of({check_kind(args.grads.kind, "grads.kind"),
                   check_kind(args.grads.shared_kind, "grads.shared_kind"), need(args.x, "x", rows),
                   need(args.dy, "dy", rows), need(args.dx, "dx", rows),
                   need(args.d_router, "d_router", rows),
                   check_matrices(plan, rank, args.weights, "weights."),
                   check_matrices(plan, rank, args.grads, "grads.")});
}

Status check_recompute(const Plan& plan, int rank, const RecomputeArgs& args) {
  if (plan.options.save == Save::kNone) {
    return Status::bad_argument("save", "none",
                                "recompute needs a context that saves (save = all)");
  }
  if (Status status = check_context(plan, rank, args.context); !status.ok()) {
    return status;
  }
  if (Status status = check_filled(*args.context); !status.ok()) {
    return status;
  }
  return first_of({need(args.x, "x", args.context->impl().tokens > 0),
                   check_matrices(plan, rank, args.weights, "weights.")});
}

}  // namespace mok
