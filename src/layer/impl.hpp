// impl.hpp: what stands behind Workspace and Context.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "comm/group.hpp"
#include "core/layout.hpp"
#include "core/sizes.hpp"
#include "cpu/engine/engine.hpp"
#include "cpu/machine.hpp"
#include "mok/layer.hpp"
#include "route/build.hpp"
#include "route/tables_layout.hpp"
#include "sync/word_layout.hpp"

namespace mok {

// Sizes and places that a shape and its options give: the same on every rank.
struct Plan {
  LayerShape shape;
  Options options;  // defaults filled in
  int num_ranks = 1;
  Geometry geo;
  Sizes sizes;
  TablesLayout tables;
  FlagLayout flags;
  CounterLayout counters;
  Layout layout;

  [[nodiscard]] std::uint32_t workers() const {
    return static_cast<std::uint32_t>(options.workers);
  }
  [[nodiscard]] PartitionRule partition_rule(std::uint64_t saved_rows) const;
  // What all ranks must agree on, as text.
  [[nodiscard]] std::string agreement() const;
};
// Validates, fills defaults, refuses what does not fit 64 bits. Allocates nothing.
[[nodiscard]] Result<Plan> make_plan(const LayerShape& shape, const Options& options,
                                     int num_ranks);
[[nodiscard]] Result<Plan> make_plan(const LayerShape& shape, const Options& options, int num_ranks,
                                     const Geometry& geo);

class Workspace::Impl {
 public:
  Impl() = default;
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl();

  Plan plan;
  int rank = 0;
  const cpu::Engine* engine = nullptr;
  std::shared_ptr<comm::ArenaSet> set;
  comm::Memory local;
  std::unique_ptr<cpu::Team> team;
  cpu::RankSync sync;
  std::vector<std::byte*> arenas;          // [R], known after the first call's join
  std::vector<std::uint64_t*> peer_flags;  // [R]
  std::vector<cpu::Worker> workers;
  Epoch epoch = 0;
  std::uint64_t num_calls = 0;
  std::uint32_t num_forwards = 0;
  bool failed = false;  // a call has returned the group's failure: poisoned from here
  cpu::TaskHook hook;   // tests only

  [[nodiscard]] std::byte* arena() const { return set->base(rank); }
};

class Context::Impl {
 public:
  enum class State { kEmpty, kFilled, kReleased };

  Plan plan;
  comm::Memory kept;   // tables, ids, weights
  comm::Memory saved;  // x, gate, up rows
  State state = State::kEmpty;
  RouteView view;  // of the last forward
  std::int64_t tokens = 0;
  std::uint64_t workspace = 0;  // number of the one that filled it
  std::uint32_t sequence = 0;   // of that forward

  [[nodiscard]] TableStorage storage() const {
    return TableStorage{kept.data() + plan.layout.context.tables, plan.tables};
  }
};

// Tests set a geometry of their own and a first call number.
[[nodiscard]] Result<Workspace> make_workspace(const World& world, const LayerShape& shape,
                                               const Options& options, const Geometry& geo,
                                               Epoch first_epoch);

}  // namespace mok
