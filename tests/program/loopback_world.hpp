// loopback_world.hpp: route tables and call views of R ranks in one process, for tests of program
// and roles on CPU and GPU.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "core/geometry.hpp"
#include "core/sizes.hpp"
#include "program/call.hpp"
#include "route/build.hpp"

namespace mok::loopback {

struct WorldSetup {
  LayerShape layer;
  Options options;
  std::uint32_t num_ranks = 1;
  std::uint32_t min_phase_tiles = 1;
  std::vector<std::uint32_t> tokens;  // of each rank
};

struct CallSetup {
  CallKind kind = CallKind::kForward;
  Epoch epoch = 1;
  Dispatch x_way = Dispatch::kPull;
  Dispatch dy_way = Dispatch::kPull;
  Combine out_way = Combine::kScatter;
  Flagged shared_replay = Flagged::kNo;
};

// k distinct experts a token, every ordered choice equally likely: what the top-k of equal-odds
// logits is.
inline std::vector<std::int32_t> draw_distinct_ids(std::uint32_t tokens, std::uint32_t experts,
                                                   std::uint32_t topk, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::int32_t> pool(experts);
  std::iota(pool.begin(), pool.end(), 0);
  std::vector<std::int32_t> ids;
  ids.reserve(std::size_t{tokens} * topk);
  for (std::uint32_t token = 0; token < tokens; ++token) {
    for (std::uint32_t slot = 0; slot < topk; ++slot) {
      const auto other = slot + static_cast<std::uint32_t>(random() % (experts - slot));
      std::swap(pool[slot], pool[other]);
      ids.push_back(pool[slot]);
    }
  }
  return ids;
}

template <class Geo>
Geometry as_geometry(const Geo& geo) {
  return Geometry{.block_rows = geo.block_rows,
                  .row_pad = geo.row_pad,
                  .tile_cols = geo.tile_cols,
                  .wgrad_rows = geo.wgrad_rows,
                  .stripe_rows = geo.stripe_rows,
                  .token_stripe = geo.token_stripe,
                  .partial_cols = geo.partial_cols,
                  .look_ahead = geo.look_ahead,
                  .segment_rows = geo.segment_rows,
                  .cells = geo.cells};
}

template <class Geo>
class LoopbackWorld {
 public:
  // ids[r]: tokens[r] * topk entries. One thread a rank builds the tables.
  LoopbackWorld(const Geo& geo, WorldSetup setup, const std::vector<std::vector<std::int32_t>>& ids)
      : geo_(geo),
        setup_(std::move(setup)),
        sizes_(make_sizes(setup_.layer, setup_.options, static_cast<int>(setup_.num_ranks),
                          as_geometry(geo))),
        at_(make_tables_layout(sizes_)),
        tables_(setup_.num_ranks),
        routes_(setup_.num_ranks) {
    for_each_rank([&](std::uint32_t rank) {
      tables_[rank].resize(at_.bytes);
      const TableStorage to = storage(rank);
      std::vector<std::uint32_t> cursor(experts());
      sort_slots(ids[rank].data(), static_cast<std::uint32_t>(ids[rank].size()), experts(),
                 counts_row(rank, rank), to.words(at_.sorted_slots), cursor.data());
    });
    for_each_rank([&](std::uint32_t rank) {
      for (std::uint32_t source = 0; source < setup_.num_ranks; ++source) {
        if (source != rank) {
          std::copy_n(counts_row(source, source), experts(), counts_row(rank, source));
        }
      }
      routes_[rank] = derive_tables(geo_, build_input(rank), storage(rank));
    });
  }

  [[nodiscard]] const WorldSetup& setup() const { return setup_; }
  [[nodiscard]] const Sizes& sizes() const { return sizes_; }
  [[nodiscard]] std::uint32_t num_ranks() const { return setup_.num_ranks; }
  [[nodiscard]] const RouteView& routes(std::uint32_t rank) const { return routes_[rank]; }
  [[nodiscard]] const std::vector<std::byte>& tables(std::uint32_t rank) const {
    return tables_[rank];
  }

  [[nodiscard]] CallView<Geo> view(std::uint32_t rank, const CallSetup& call) const {
    CallView<Geo> view;
    view.geo = geo_;
    view.kind = call.kind;
    view.epoch = call.epoch;
    view.start_word = start_payload(static_cast<std::uint32_t>(call.kind), 1);
    view.tokens = setup_.tokens[rank];
    view.hidden = static_cast<std::uint32_t>(sizes_.hidden);
    view.intermediate = static_cast<std::uint32_t>(sizes_.intermediate);
    view.shared_intermediate = static_cast<std::uint32_t>(sizes_.shared_intermediate);
    view.output_gate = setup_.layer.output_gate ? Flagged::kYes : Flagged::kNo;
    view.shared_replay = call.shared_replay;
    view.zero_empty = Flagged::kYes;
    view.x_way = call.x_way;
    view.dy_way = call.dy_way;
    view.out_way = call.out_way;
    view.routes = routes_[rank];
    view.flags = FlagLayout{setup_.num_ranks, geo_.cells};
    view.counters = make_counter_layout(sizes_.max_blocks, sizes_.max_records, sizes_.num_ranks,
                                        sizes_.shared_blocks);
    return view;
  }

  template <class F>
  void for_each_rank(F f) const {
    std::vector<std::jthread> threads;
    for (std::uint32_t rank = 0; rank < setup_.num_ranks; ++rank) {
      threads.emplace_back([&f, rank] { f(rank); });
    }
  }

 private:
  [[nodiscard]] std::uint32_t experts() const { return static_cast<std::uint32_t>(sizes_.experts); }
  [[nodiscard]] TableStorage storage(std::uint32_t rank) {
    return TableStorage{tables_[rank].data(), at_};
  }
  [[nodiscard]] std::uint32_t* counts_row(std::uint32_t rank, std::uint32_t source) {
    return storage(rank).words(at_.counts) + std::size_t{source} * experts();
  }
  [[nodiscard]] BuildInput build_input(std::uint32_t rank) const {
    const auto width = static_cast<std::uint32_t>(sizes_.intermediate);
    const auto hidden = static_cast<std::uint32_t>(sizes_.hidden);
    const std::uint32_t fewest =
        std::min(TileCounts<Geo>::plain(geo_, width), TileCounts<Geo>::plain(geo_, hidden));
    return BuildInput{.rank = rank,
                      .num_ranks = setup_.num_ranks,
                      .experts = experts(),
                      .topk = static_cast<std::uint32_t>(sizes_.topk),
                      .rule = {.cell_rows = static_cast<std::uint32_t>(sizes_.cell_rows),
                               .tiles_per_block = fewest,
                               .min_phase_tiles = setup_.min_phase_tiles,
                               .saved_rows = static_cast<std::uint32_t>(sizes_.saved_rows)}};
  }

  [[no_unique_address]] Geo geo_;
  WorldSetup setup_;
  Sizes sizes_;
  TablesLayout at_;
  std::vector<std::vector<std::byte>> tables_;
  std::vector<RouteView> routes_;
};

// The view with its tables at another address (a copy of world.tables(rank) in device memory).
template <class Geo>
CallView<Geo> rebased(CallView<Geo> view, const std::byte* from, std::byte* to) {
  const auto move = [&]<class T>(const T*& pointer) {
    pointer = reinterpret_cast<const T*>(to + (reinterpret_cast<const std::byte*>(pointer) - from));
  };
  RouteView& r = view.routes;
  move(r.counts);
  move(r.source_prefix);
  move(r.slot_offset);
  move(r.expert_row0);
  move(r.blocks);
  move(r.phases);
  move(r.parts);
  move(r.empty_experts);
  move(r.rows_of);
  move(r.sorted_slots);
  move(r.own_offset);
  move(r.own_prefix);
  move(r.global_row0);
  move(r.records);
  move(r.record0);
  return view;
}

}  // namespace mok::loopback
