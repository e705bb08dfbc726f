// plan.cpp: from shape and options to sizes, layouts and the memory formula.
#include <algorithm>
#include <sstream>
#include <thread>

#include "layer/impl.hpp"

namespace mok {

namespace {

constexpr std::uint64_t kWorkerScratch = sizeof(cpu::WorkerScratch);

Options fill_defaults(const LayerShape& shape, Options options, int num_ranks) {
  if (options.ring_rows == 0) {
    options.ring_rows = default_ring_rows(shape, num_ranks);
  }
  if (options.saved_rows == -1) {
    options.saved_rows = default_saved_rows(shape, num_ranks);
  }
  if (options.workers == 0) {
    const auto cores = static_cast<int>(std::thread::hardware_concurrency());
    options.workers = std::max(1, cores / num_ranks);
  }
  return options;
}

}  // namespace

Result<Plan> make_plan(const LayerShape& shape, const Options& options, int num_ranks) {
  return make_plan(shape, options, num_ranks, Geometry{});
}

Result<Plan> make_plan(const LayerShape& shape, const Options& options, int num_ranks,
                       const Geometry& geo) {
  if (Status status = validate(shape, options, num_ranks); !status.ok()) {
    return failure(std::move(status));
  }
  Plan plan;
  plan.shape = shape;
  plan.options = fill_defaults(shape, options, num_ranks);
  plan.num_ranks = num_ranks;
  plan.geo = geo;
  plan.sizes = make_sizes(shape, plan.options, num_ranks, geo);
  plan.tables = make_tables_layout(plan.sizes);
  plan.flags = FlagLayout{static_cast<std::uint32_t>(num_ranks), geo.cells};
  plan.counters = make_counter_layout(plan.sizes.max_blocks, plan.sizes.max_records,
                                      plan.sizes.num_ranks, plan.sizes.shared_blocks);
  LayoutExtras extras;
  extras.num_flags = plan.flags.size();
  extras.num_host_words = kNumHostWords + plan.workers();
  extras.num_counters = plan.counters.size();
  extras.tables_bytes = plan.tables.bytes;
  extras.workers = plan.workers();
  extras.worker_scratch_bytes = kWorkerScratch + Carver::mul(sizeof(float), plan.sizes.hidden);
  plan.layout = make_layout(plan.sizes, extras, plan.options.save);
  const std::uint64_t total =
      Carver::add(plan.layout.workspace_bytes(),
                  Carver::add(plan.layout.context.kept_bytes, plan.layout.context.saved_bytes));
  if (total == Carver::kOverflow) {
    return failure(
        Status::bad_argument("shape", "over 2^64 bytes", "workspace and context must fit 64 bits"));
  }
  return plan;
}

PartitionRule Plan::partition_rule(std::uint64_t saved_rows) const {
  const auto width = static_cast<std::uint32_t>(shape.intermediate);
  const auto hidden = static_cast<std::uint32_t>(shape.hidden);
  constexpr std::uint64_t kMostRows = 0xffffffffU;
  PartitionRule rule;
  rule.cell_rows = static_cast<std::uint32_t>(sizes.cell_rows);
  rule.tiles_per_block =
      std::min(TileCounts<Geometry>::gate_up(geo, width), TileCounts<Geometry>::plain(geo, hidden));
  rule.min_phase_tiles = 2 * workers();
  rule.saved_rows = static_cast<std::uint32_t>(std::min(saved_rows, kMostRows));
  return rule;
}

std::string Plan::agreement() const {
  std::ostringstream text;
  text << "ranks " << num_ranks << ", max_tokens " << shape.max_tokens << ", hidden "
       << shape.hidden << ", intermediate " << shape.intermediate << ", shared_intermediate "
       << shape.shared_intermediate << ", experts " << shape.experts << ", topk " << shape.topk
       << ", output_gate " << shape.output_gate << ", swiglu_limit " << std::hexfloat  // exact
       << (shape.swiglu_limit ? *shape.swiglu_limit : 0.0F) << std::defaultfloat << ", dispatch "
       << name(options.dispatch) << ", combine " << name(options.combine) << ", dy_dispatch "
       << name(options.dy_dispatch) << ", dx_combine " << name(options.dx_combine) << ", ring_rows "
       << options.ring_rows << ", saved_rows " << options.saved_rows << ", save "
       << name(options.save) << ", workers " << options.workers << ", engine " << options.engine;
  return text.str();
}

Result<MemoryFormula> memory_formula(const LayerShape& shape, const Options& options,
                                     int num_ranks) {
  Result<Plan> plan = make_plan(shape, options, num_ranks);
  if (!plan) {
    return failure(plan.error());
  }
  MemoryFormula formula;
  for (const LayoutTerm& term : plan->layout.workspace_terms) {
    formula.workspace.push_back(MemoryTerm{term.name, term.bytes});
  }
  for (const LayoutTerm& term : plan->layout.context_terms) {
    formula.context.push_back(MemoryTerm{term.name, term.bytes});
  }
  formula.workspace_bytes = plan->layout.workspace_bytes();
  formula.context_bytes = plan->layout.context.kept_bytes + plan->layout.context.saved_bytes;
  return formula;
}

Result<std::uint64_t> workspace_bytes(const LayerShape& shape, const Options& options,
                                      int num_ranks) {
  return memory_formula(shape, options, num_ranks).map([](const MemoryFormula& formula) {
    return formula.workspace_bytes;
  });
}

}  // namespace mok
