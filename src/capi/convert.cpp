// convert.cpp: translation of the C structs, field by field.
#include "capi/convert.hpp"

#include <cstdio>
#include <initializer_list>
#include <string>
#include <utility>

namespace mok::capi {

namespace {

static_assert(MOK_OK == static_cast<int>(Code::kOk));
static_assert(MOK_BAD_ARGUMENT == static_cast<int>(Code::kBadArgument));
static_assert(MOK_BAD_FILE == static_cast<int>(Code::kBadFile));
static_assert(MOK_ENVIRONMENT == static_cast<int>(Code::kEnvironment));
static_assert(MOK_TIMEOUT == static_cast<int>(Code::kTimeout));
static_assert(MOK_PEER_LOST == static_cast<int>(Code::kPeerLost));
static_assert(MOK_CALL_MISMATCH == static_cast<int>(Code::kCallMismatch));
static_assert(MOK_ABORTED == static_cast<int>(Code::kAborted));
static_assert(MOK_POISONED == static_cast<int>(Code::kPoisoned));
static_assert(MOK_CHECK_FAILED == static_cast<int>(Code::kCheckFailed));
static_assert(MOK_INTERNAL == static_cast<int>(Code::kInternal));

static_assert(MOK_DISPATCH_PULL == static_cast<int>(Dispatch::kPull));
static_assert(MOK_DISPATCH_PUSH == static_cast<int>(Dispatch::kPush));
static_assert(MOK_COMBINE_SCATTER == static_cast<int>(Combine::kScatter));
static_assert(MOK_COMBINE_PUSH == static_cast<int>(Combine::kPush));
static_assert(MOK_COMBINE_PULL == static_cast<int>(Combine::kPull));
static_assert(MOK_SAVE_ALL == static_cast<int>(Save::kAll));
static_assert(MOK_SAVE_NONE == static_cast<int>(Save::kNone));
static_assert(MOK_GRAD_BF16 == static_cast<int>(Grad::kBf16));
static_assert(MOK_GRAD_FP32 == static_cast<int>(Grad::kFp32));
static_assert(MOK_GRAD_MAIN_GRAD == static_cast<int>(Grad::kMainGrad));

// There is one version of each struct so far. Where one grows, its older sizes are accepted as well, and
// the fields that they lack keep their defaults.
template <class Struct>
Status check_size(const Struct* from, const char* argument, const char* type) {
  if (from == nullptr) {
    return missing(argument);
  }
  if (from->struct_size != sizeof(Struct)) {
    return Status::bad_argument(
        std::string(argument) + ".struct_size", std::to_string(from->struct_size),
        "must be sizeof(" + std::string(type) + ") = " + std::to_string(sizeof(Struct)));
  }
  return {};
}

// Values are 0 .. last without gaps; `legal` names them.
template <class Enum>
Status read_enum(std::int32_t from, const char* argument, Enum last, const char* legal, Enum& to) {
  if (from < 0 || from > static_cast<std::int32_t>(last)) {
    return Status::bad_argument(argument, std::to_string(from), std::string("must be ") + legal);
  }
  to = static_cast<Enum>(from);
  return {};
}
constexpr const char* kDispatchValues = "MOK_DISPATCH_PULL (0) or MOK_DISPATCH_PUSH (1)";
constexpr const char* kCombineValues =
    "MOK_COMBINE_SCATTER (0), MOK_COMBINE_PUSH (1) or MOK_COMBINE_PULL (2)";
constexpr const char* kSaveValues = "MOK_SAVE_ALL (0) or MOK_SAVE_NONE (1)";
constexpr const char* kGradValues =
    "MOK_GRAD_BF16 (0), MOK_GRAD_FP32 (1) or MOK_GRAD_MAIN_GRAD (2)";

Status first_of(std::initializer_list<Status> checks) {
  for (const Status& check : checks) {
    if (!check.ok()) {
      return check;
    }
  }
  return {};
}

// Bf16 holds one uint16_t and nothing else, so a pointer to one is a pointer to the other.
static_assert(sizeof(Bf16) == sizeof(std::uint16_t) && alignof(Bf16) == alignof(std::uint16_t));
const Bf16* bf16(const std::uint16_t* from) {
  return reinterpret_cast<const Bf16*>(from);
}
Bf16* bf16(std::uint16_t* from) {
  return reinterpret_cast<Bf16*>(from);
}

ExpertMatrix matrix(const mok_expert_matrix& from) {
  return {bf16(from.base), from.expert_stride, from.row_stride,
          reinterpret_cast<const Bf16* const*>(from.table)};
}
GradMatrix matrix(const mok_grad_matrix& from) {
  return {from.base, from.expert_stride, from.row_stride, from.table};
}

mok_transfer_counts write(const TransferCounts& from) {
  return {from.bytes, from.remote_reads, from.remote_writes};
}

}  // namespace

Status missing(const char* argument) {
  return Status::bad_argument(argument, "NULL", "must point to memory");
}

Status read(const mok_layer_shape* from, LayerShape& to) {
  if (Status status = check_size(from, "shape", "mok_layer_shape"); !status.ok()) {
    return status;
  }
  if (from->output_gate != 0 && from->output_gate != 1) {
    return Status::bad_argument("output_gate", std::to_string(from->output_gate), "must be 0 or 1");
  }
  to.max_tokens = from->max_tokens;
  to.hidden = from->hidden;
  to.intermediate = from->intermediate;
  to.shared_intermediate = from->shared_intermediate;
  to.experts = from->experts;
  to.topk = from->topk;
  to.output_gate = from->output_gate == 1;
  if (from->swiglu_limit !=
      0.0F) {  // a NaN or a negative one is refused where the shape is checked
    to.swiglu_limit = from->swiglu_limit;
  }
  return {};
}

Status read(const mok_options* from, Options& to) {
  if (from == nullptr) {
    return {};
  }
  if (Status status = check_size(from, "options", "mok_options"); !status.ok()) {
    return status;
  }
  Options options;
  Status status = first_of({
      read_enum(from->dispatch, "dispatch", Dispatch::kPush, kDispatchValues, options.dispatch),
      read_enum(from->combine, "combine", Combine::kPull, kCombineValues, options.combine),
      read_enum(from->dy_dispatch, "dy_dispatch", Dispatch::kPush, kDispatchValues,
                options.dy_dispatch),
      read_enum(from->dx_combine, "dx_combine", Combine::kPull, kCombineValues, options.dx_combine),
      read_enum(from->save, "save", Save::kNone, kSaveValues, options.save),
  });
  if (!status.ok()) {
    return status;
  }
  options.ring_rows = from->ring_rows;
  options.saved_rows = from->saved_rows;
  options.workers = from->workers;
  if (from->engine != nullptr) {
    options.engine = from->engine;
  }
  options.join_deadline_ms = from->join_deadline_ms;
  options.progress_deadline_ms = from->progress_deadline_ms;
  to = std::move(options);
  return {};
}

Status read(const mok_weights* from, Weights& to) {
  if (Status status = check_size(from, "weights", "mok_weights"); !status.ok()) {
    return status;
  }
  to = Weights{matrix(from->gate),
               matrix(from->up),
               matrix(from->down),
               matrix(from->shared_gate),
               matrix(from->shared_up),
               matrix(from->shared_down),
               bf16(from->shared_output_gate)};
  return {};
}

Status read(const mok_weight_grads* from, WeightGrads& to) {
  if (Status status = check_size(from, "grads", "mok_weight_grads"); !status.ok()) {
    return status;
  }
  WeightGrads grads;
  Status status = first_of({
      read_enum(from->kind, "grads.kind", Grad::kMainGrad, kGradValues, grads.kind),
      read_enum(from->shared_kind, "grads.shared_kind", Grad::kMainGrad, kGradValues,
                grads.shared_kind),
  });
  if (!status.ok()) {
    return status;
  }
  grads.gate = matrix(from->gate);
  grads.up = matrix(from->up);
  grads.down = matrix(from->down);
  grads.shared_gate = matrix(from->shared_gate);
  grads.shared_up = matrix(from->shared_up);
  grads.shared_down = matrix(from->shared_down);
  grads.shared_output_gate = from->shared_output_gate;
  to = grads;
  return {};
}

Status read(const mok_forward_args* from, ForwardArgs& to) {
  if (Status status = check_size(from, "args", "mok_forward_args"); !status.ok()) {
    return status;
  }
  if (Status status = read(from->weights, to.weights); !status.ok()) {
    return status;
  }
  to.tokens = from->tokens;
  to.x = bf16(from->x);
  to.routing = Routing{from->routing.ids, from->routing.ids64, from->routing.weights};
  to.y = bf16(from->y);
  return {};
}

Status read(const mok_backward_args* from, BackwardArgs& to) {
  if (Status status = check_size(from, "args", "mok_backward_args"); !status.ok()) {
    return status;
  }
  Status status = first_of({read(from->weights, to.weights), read(from->grads, to.grads)});
  if (!status.ok()) {
    return status;
  }
  to.x = bf16(from->x);
  to.dy = bf16(from->dy);
  to.dx = bf16(from->dx);
  to.d_router = from->d_router;
  return {};
}

Status read(const mok_recompute_args* from, RecomputeArgs& to) {
  if (Status status = check_size(from, "args", "mok_recompute_args"); !status.ok()) {
    return status;
  }
  to.x = bf16(from->x);
  return read(from->weights, to.weights);
}

Status check_report(const mok_call_report* report) {
  return report == nullptr ? Status{} : check_size(report, "report", "mok_call_report");
}

void write(const CallReport& from, mok_call_report* to) {
  if (to == nullptr) {
    return;
  }
  to->epoch = from.epoch;
  to->rows = from.rows;
  to->padded_rows = from.padded_rows;
  to->phases = from.phases;
  to->ring_turns = from.ring_turns;
  to->replayed_rows = from.replayed_rows;
  to->dispatch = write(from.dispatch);
  to->combine = write(from.combine);
  to->dy_dispatch = write(from.dy_dispatch);
  to->dx_combine = write(from.dx_combine);
  to->route_ms = from.route_ms;
  to->run_ms = from.run_ms;
}

mok_status write(const Status& from) {
  mok_status to{};
  to.code = static_cast<std::int32_t>(from.code());
  to.rank = from.wait().rank;
  to.epoch = from.wait().epoch;
  std::snprintf(to.message, sizeof(to.message), "%s", from.message().c_str());
  return to;
}

mok_status write(std::int32_t code, const char* what, const char* why) noexcept {
  mok_status to{};
  to.code = code;
  to.rank = -1;
  std::snprintf(to.message, sizeof(to.message), "%s: %s", what, why);
  return to;
}

}  // namespace mok::capi
