// workspace.cpp: makes and drops workspaces and contexts.
#include <algorithm>
#include <cstring>
#include <system_error>

#include "layer/environment.hpp"
#include "layer/impl.hpp"

namespace mok {

namespace {

Status no_memory(const char* what, std::uint64_t bytes) {
  return Status::environment(what, std::to_string(bytes) + " bytes",
                             "the machine has not that much memory: smaller tokens, ring_rows or "
                             "saved_rows");
}

// At most about 31 years, so that no sum of deadlines leaves 64 bits.
std::chrono::nanoseconds scaled(std::int64_t deadline_ms) {
  const double nanoseconds = static_cast<double>(deadline_ms) * 1e6 * deadline_scale();
  return std::chrono::nanoseconds(static_cast<std::int64_t>(std::min(nanoseconds, 1e18)));
}

// Before anyone can reach the shared words: host words 0, flags as if the call before the first had left
// them (0 for the usual first call).
void clear_words(std::byte* arena, const Plan& plan, Epoch first_epoch) {
  const ArenaLayout& at = plan.layout.arena;
  std::memset(arena + at.flags, 0, at.counts - at.flags);
  std::fill_n(reinterpret_cast<std::uint64_t*>(arena + at.flags), plan.flags.size(),
              flag_value(first_epoch - 1, 0));
}

void make_workers(Workspace::Impl& ws, std::byte* arena) {
  for (std::uint32_t i = 0; i < ws.plan.workers(); ++i) {
    std::byte* base = ws.local.data() + ws.plan.layout.local.scratch;
    cpu::Worker worker;
    worker.scratch = reinterpret_cast<cpu::WorkerScratch*>(base + i * sizeof(cpu::WorkerScratch));
    worker.row = reinterpret_cast<float*>(base + ws.plan.workers() * sizeof(cpu::WorkerScratch)) +
                 i * ws.plan.sizes.hidden;
    worker.life = reinterpret_cast<std::uint64_t*>(arena + ws.plan.layout.arena.host_words) +
                  static_cast<std::uint32_t>(HostWord::kLife) * cpu::kHostWordStride;
    ws.workers.push_back(worker);
  }
}

}  // namespace

Result<Workspace> make_workspace(const World& world, const LayerShape& shape,
                                 const Options& options, const Geometry& geo, Epoch first_epoch) {
  Result<Plan> plan = make_plan(shape, options, world.num_ranks(), geo);
  if (!plan) {
    return failure(plan.error());
  }
  const Result<const cpu::Engine*> engine = cpu::find_engine(options.engine);
  if (!engine) {
    return failure(engine.error());
  }
  auto ws = std::make_unique<Workspace::Impl>();
  ws->plan = std::move(*plan);
  ws->plan.options.engine = std::string((*engine)->name);
  ws->rank = world.rank();
  ws->engine = *engine;
  ws->epoch = first_epoch - 1;
  comm::Memory arena(ws->plan.layout.arena.bytes);
  ws->local = comm::Memory(ws->plan.layout.local.bytes);
  if (arena.data() == nullptr || ws->local.data() == nullptr) {
    return failure(no_memory("workspace", ws->plan.layout.workspace_bytes()));
  }
  clear_words(arena.data(), ws->plan, first_epoch);
  try {
    ws->team = std::make_unique<cpu::Team>(ws->plan.workers());
  } catch (const std::system_error& error) {
    return failure(Status::environment("workers", std::to_string(ws->plan.workers()),
                                       std::string("the system gives no further thread (") +
                                           error.what() + "): fewer workers or ranks"));
  }
  make_workers(*ws, arena.data());
  ws->set = world.group().next_set(world.rank());
  ws->sync.set = ws->set.get();
  ws->sync.rank = static_cast<std::uint32_t>(ws->rank);
  ws->sync.num_ranks = static_cast<std::uint32_t>(ws->plan.num_ranks);
  ws->sync.workers = ws->plan.workers();
  ws->sync.host_words_offset = ws->plan.layout.arena.host_words;
  ws->sync.join_deadline = scaled(options.join_deadline_ms);
  ws->sync.progress_deadline = scaled(options.progress_deadline_ms);
  ws->set->publish(ws->rank, std::move(arena), ws->plan.agreement());
  return Workspace(std::move(ws));
}

Result<Workspace> Workspace::create(const World& world, const LayerShape& shape,
                                    const Options& options) {
  return make_workspace(world, shape, options, Geometry{}, 1);
}

// Ranks that have made theirs, or will, must not wait for one that is gone.
Workspace::Impl::~Impl() {
  if (set != nullptr && !set->complete()) {
    set->fail(Status::environment("workspace", "of rank " + std::to_string(rank),
                                  "was dropped before every rank of the group had made its own"));
  }
}

Workspace::Workspace(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Workspace::Workspace(Workspace&&) noexcept = default;
Workspace& Workspace::operator=(Workspace&&) noexcept = default;
Workspace::~Workspace() = default;

const LayerShape& Workspace::shape() const {
  return impl_->plan.shape;
}
const Options& Workspace::options() const {
  return impl_->plan.options;
}
std::string_view Workspace::engine() const {
  return impl_->engine->name;
}
int Workspace::rank() const {
  return impl_->rank;
}
int Workspace::num_ranks() const {
  return impl_->plan.num_ranks;
}
std::uint64_t Workspace::allocated_bytes() const {
  return impl_->set->arena_bytes(impl_->rank) + impl_->local.bytes();
}

Context::Context(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Context::Context(Context&&) noexcept = default;
Context& Context::operator=(Context&&) noexcept = default;
Context::~Context() = default;

Result<Context> Context::create(const Workspace& workspace) {
  auto context = std::make_unique<Impl>();
  context->plan = workspace.impl().plan;
  const ContextLayout& at = context->plan.layout.context;
  context->kept = comm::Memory(at.kept_bytes);
  context->saved = comm::Memory(at.saved_bytes);
  if (context->kept.data() == nullptr || context->saved.data() == nullptr) {
    return failure(no_memory("context", at.kept_bytes + at.saved_bytes));
  }
  return Context(std::move(context));
}

bool Context::filled() const {
  return impl_->state != Impl::State::kEmpty;
}
std::uint64_t Context::allocated_bytes() const {
  return impl_->kept.bytes() + impl_->saved.bytes();
}

RouteTables Context::routes() const {
  RouteTables tables;
  if (!filled()) {
    return tables;
  }
  const RouteView& view = impl_->view;
  tables.num_rows = view.num_rows;
  tables.num_padded_rows = view.phases[view.num_phases].row0;
  tables.num_blocks = view.num_blocks;
  tables.num_phases = view.num_phases;
  tables.saved_rows = impl_->state == Impl::State::kFilled ? view.saved_row_end : 0;
  for (std::uint32_t e = 0; e < view.local_experts; ++e) {
    const std::uint64_t row = static_cast<std::uint64_t>(e) * (view.num_ranks + 1);
    tables.rows_per_expert.push_back(view.source_prefix[row + view.num_ranks]);
  }
  return tables;
}

void release_saved(Context& context) {
  Context::Impl& impl = context.impl();
  impl.saved = comm::Memory();
  if (impl.state == Context::Impl::State::kFilled) {
    impl.state = Context::Impl::State::kReleased;
  }
}

}  // namespace mok
