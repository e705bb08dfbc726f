// layer.cpp: forward, backward and recompute.
#include "mok/layer.hpp"

#include <algorithm>

#include "layer/call.hpp"
#include "layer/check_args.hpp"

namespace mok {

namespace {

using State = Context::Impl::State;

// ids as int32, in the workspace (and in the context, for the backward).
void copy_ids(const Routing& routing, std::uint64_t slots, std::int32_t* to) {
  if (routing.ids != nullptr) {
    std::copy_n(routing.ids, slots, to);
  } else if (routing.ids64 != nullptr) {
    std::transform(routing.ids64, routing.ids64 + slots, to,
                   [](std::int64_t id) { return static_cast<std::int32_t>(id); });
  }
}

// A released context has no memory for saved rows; a forward or recompute gives it some again.
Status provide_saved(Context::Impl& context) {
  const std::uint64_t bytes = context.plan.layout.context.saved_bytes;
  if (context.saved.data() == nullptr) {
    context.saved = comm::Memory(bytes);
  }
  return context.saved.data() != nullptr
             ? Status{}
             : Status::environment("context", std::to_string(bytes) + " bytes",
                                   "the machine has not that much memory");
}

template <class T>
T* at(const comm::Memory& memory, std::uint64_t offset) {
  return reinterpret_cast<T*>(memory.data() + offset);
}

}  // namespace

Result<CallReport> forward(Workspace& workspace, const ForwardArgs& args) {
  Workspace::Impl& ws = workspace.impl();
  if (Status status = check_forward(ws.plan, ws.rank, args); !status.ok()) {
    return failure(std::move(status));
  }
  const Layout& layout = ws.plan.layout;
  const std::uint64_t slots = static_cast<std::uint64_t>(args.tokens) * ws.plan.sizes.topk;
  Context::Impl* context = args.context != nullptr ? &args.context->impl() : nullptr;
  if (context != nullptr) {
    if (Status status = provide_saved(*context); !status.ok()) {
      return failure(std::move(status));
    }
  }
  const std::uint32_t sequence = ++ws.num_forwards;
  Call call(ws, CallKind::kForward, args.tokens,
            context_identity(ws.set->number(), sequence, Flagged::kNo));
  if (Status status = call.open(); !status.ok()) {
    return failure(std::move(status));
  }
  auto* ids = at<std::int32_t>(ws.local, layout.local.ids);
  copy_ids(args.routing, slots, ids);
  call.data.ids = ids;
  call.data.router = args.routing.weights;
  call.data.x = args.x;
  call.data.weights = args.weights;
  call.data.out = args.y;
  call.stage_rows(layout.arena.x, args.x);

  TableStorage storage{ws.local.data() + layout.local.tables, ws.plan.tables};
  if (context != nullptr) {
    context->state = State::kEmpty;  // until this forward has succeeded
    storage = context->storage();
    std::copy_n(ids, slots, at<std::int32_t>(context->kept, layout.context.ids));
    std::copy_n(args.routing.weights, slots, at<float>(context->kept, layout.context.weights));
    if (ws.plan.options.save == Save::kAll) {
      call.data.saved = context->saved.data();
    }
  }
  if (Status status = call.build_routes(ids, storage); !status.ok()) {
    return failure(std::move(status));
  }
  Result<CallReport> report = call.run();
  if (report && context != nullptr) {
    context->view = call.data.view.routes;
    context->tokens = args.tokens;
    context->workspace = ws.set->number();
    context->sequence = sequence;
    context->state = State::kFilled;
  }
  return report;
}

Result<CallReport> backward(Workspace& workspace, const BackwardArgs& args) {
  Workspace::Impl& ws = workspace.impl();
  if (Status status = check_backward(ws.plan, ws.rank, args); !status.ok()) {
    return failure(std::move(status));
  }
  const Layout& layout = ws.plan.layout;
  const Context::Impl& context = args.context->impl();
  const bool holds = context.state == State::kFilled && ws.plan.options.save == Save::kAll;
  const Flagged released = context.state == State::kReleased ? Flagged::kYes : Flagged::kNo;
  Call call(ws, CallKind::kBackward, context.tokens,
            context_identity(context.workspace, context.sequence, released));
  if (Status status = call.open(); !status.ok()) {
    return failure(std::move(status));
  }
  call.data.ids = at<std::int32_t>(context.kept, layout.context.ids);
  call.data.router = at<float>(context.kept, layout.context.weights);
  call.data.x = args.x;
  call.data.dy = args.dy;
  call.data.weights = args.weights;
  call.data.out = args.dx;
  call.data.d_router = args.d_router;
  call.data.grads = args.grads;
  call.data.saved = holds ? context.saved.data() : nullptr;
  call.data.view.shared_replay = holds ? Flagged::kNo : Flagged::kYes;
  call.data.view.zero_empty = args.grads.kind == Grad::kMainGrad ? Flagged::kNo : Flagged::kYes;
  call.data.view.routes = context.view;
  if (context.state == State::kReleased) {
    const TableStorage storage{ws.local.data() + layout.local.tables, ws.plan.tables};
    call.data.view.routes = derive_again(ws.plan, context.view, storage, 0);
  }
  if (Status status = call.enter(); !status.ok()) {
    return failure(std::move(status));
  }
  call.stage_rows(layout.arena.x, args.x);
  call.stage_rows(layout.arena.dy, args.dy);
  call.stage_slots(context.view.sorted_slots, call.data.router);
  call.start();
  return call.run();
}

Result<CallReport> recompute(Workspace& workspace, const RecomputeArgs& args) {
  Workspace::Impl& ws = workspace.impl();
  if (Status status = check_recompute(ws.plan, ws.rank, args); !status.ok()) {
    return failure(std::move(status));
  }
  Context::Impl& context = args.context->impl();
  if (Status status = provide_saved(context); !status.ok()) {
    return failure(std::move(status));
  }
  Call call(ws, CallKind::kRecompute, context.tokens,
            context_identity(context.workspace, context.sequence, Flagged::kNo));
  if (Status status = call.open(); !status.ok()) {
    return failure(std::move(status));
  }
  call.data.x = args.x;
  call.data.weights = args.weights;
  call.data.saved = context.saved.data();
  call.data.view.routes = context.view;
  if (Status status = call.enter(); !status.ok()) {
    return failure(std::move(status));
  }
  context.state = State::kReleased;  // until this recompute has succeeded
  call.stage_rows(ws.plan.layout.arena.x, args.x);
  call.stage_slots(context.view.sorted_slots,
                   at<float>(context.kept, ws.plan.layout.context.weights));
  call.start();
  Result<CallReport> report = call.run();
  if (report) {
    context.state = State::kFilled;
  }
  return report;
}

}  // namespace mok
