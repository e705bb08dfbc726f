// world_builder.hpp: the CallViews of all ranks of one call, from a random specification, and the
// words they share.
#pragma once

#include <algorithm>
#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "program/call.hpp"
#include "program/protocol.hpp"
#include "support/batch.hpp"
#include "support/random.hpp"
#include "support/tables_world.hpp"

namespace mok::testing {

using View = CallView<Geometry>;

// Everything a call's program depends on but the ids.
struct CallSpec {
  Geometry geo;
  CallKind kind = CallKind::kForward;
  Epoch epoch = 1;
  std::uint32_t hidden = 8;
  std::uint32_t intermediate = 8;
  std::uint32_t shared_intermediate = 0;
  Flagged output_gate = Flagged::kNo;
  Flagged shared_replay = Flagged::kNo;
  Flagged zero_empty = Flagged::kNo;
  Dispatch x_way = Dispatch::kPull;
  Dispatch dy_way = Dispatch::kPull;
  Combine out_way = Combine::kScatter;
  std::uint32_t cell_rows = 4;
  std::uint32_t saved_rows = 0;
  std::uint32_t min_phase_tiles = 1;

  friend std::ostream& operator<<(std::ostream& out, const CallSpec& s) {
    return out << "kind " << static_cast<int>(s.kind) << " look_ahead " << s.geo.look_ahead << " H "
               << s.hidden << " I " << s.intermediate << " S " << s.shared_intermediate << " gate "
               << static_cast<int>(s.output_gate) << " x " << name(s.x_way) << " dy "
               << name(s.dy_way) << " out " << name(s.out_way) << " cell_rows " << s.cell_rows
               << " saved_rows " << s.saved_rows << " min_phase_tiles " << s.min_phase_tiles
               << " epoch " << s.epoch;
  }
};

struct CallWorld {
  CallSpec spec;
  Batch batch;
  TablesWorld tables;
  std::vector<View> views;
  std::vector<std::vector<std::uint32_t>> counters;  // per rank
  std::vector<std::vector<std::uint64_t>> flags;     // per rank
  std::vector<std::uint64_t*> peer_flags;

  CallWorld(const CallSpec& call, const Batch& routed)
      : spec(call), batch(routed), tables(call.geo, routed, rule_of(call)) {
    const std::uint32_t most = *std::max_element(batch.tokens.begin(), batch.tokens.end());
    const Sizes sizes = table_sizes(spec.geo, batch.num_ranks, batch.experts, batch.topk, most);
    const std::uint64_t shared =
        spec.shared_intermediate == 0 ? 0 : ceil_div(most, spec.geo.block_rows);
    for (std::uint32_t rank = 0; rank < batch.num_ranks; ++rank) {
      View v;
      v.geo = spec.geo;
      v.kind = spec.kind;
      v.epoch = spec.epoch;
      v.start_word = start_payload(static_cast<std::uint32_t>(spec.kind), 7);
      v.tokens = batch.tokens[rank];
      v.hidden = spec.hidden;
      v.intermediate = spec.intermediate;
      v.shared_intermediate = spec.shared_intermediate;
      v.output_gate = spec.output_gate;
      v.shared_replay = spec.shared_replay;
      v.zero_empty = spec.zero_empty;
      v.x_way = spec.x_way;
      v.dy_way = spec.dy_way;
      v.out_way = spec.out_way;
      v.routes = tables.views[rank];
      v.flags = FlagLayout{batch.num_ranks, spec.geo.cells};
      v.counters =
          make_counter_layout(sizes.max_blocks, sizes.max_records, sizes.num_ranks, shared);
      views.push_back(v);
      counters.emplace_back(v.counters.size());
      flags.emplace_back(v.flags.size());
    }
    for (auto& words : flags) {
      peer_flags.push_back(words.data());
    }
  }
  CallWorld(const CallWorld&) = delete;  // views and peer_flags point into it
  CallWorld& operator=(const CallWorld&) = delete;

  [[nodiscard]] std::uint32_t num_ranks() const { return batch.num_ranks; }
  [[nodiscard]] WordTable words(std::uint32_t rank) {
    return WordTable{counters[rank].data(), peer_flags.data()};
  }
  // First step of a rank's opening.
  void open_counters(std::uint32_t rank) {
    std::fill(counters[rank].begin(), counters[rank].end(), counter_value(spec.epoch, 0));
  }
  void set_epoch(Epoch epoch) {
    spec.epoch = epoch;
    for (View& v : views) {
      v.epoch = epoch;
    }
  }

 private:
  static PartitionRule rule_of(const CallSpec& s) {
    const std::uint32_t gate_up = TileCounts<Geometry>::gate_up(s.geo, s.intermediate);
    const std::uint32_t out = TileCounts<Geometry>::plain(s.geo, s.hidden);
    return PartitionRule{s.cell_rows, std::min(gate_up, out), s.min_phase_tiles, s.saved_rows};
  }
};

// The last step of a rank's opening: its inputs are staged.
template <SyncEnv Env>
void publish_staged(Env& env, CallWorld& world, std::uint32_t rank) {
  publish_to_all(env, world.views[rank], world.words(rank), Flag::kStart);
  settle_empty_owners(env, world.views[rank], world.words(rank));
}

// Directions, kinds and sizes at random; world `i` of a loop visits all direction triples in turn.
inline CallSpec draw_spec(Random& random, std::uint64_t i) {
  CallSpec s;
  s.geo = small_geometry(random.between(1, 2));
  s.kind = static_cast<CallKind>(random.one_in(5) ? 3 : random.between(1, 2));
  s.x_way = static_cast<Dispatch>(i % 2);
  s.dy_way = static_cast<Dispatch>(i / 2 % 2);
  s.out_way = static_cast<Combine>(i / 4 % 3);
  s.hidden = 4 * random.between(1, 6);
  s.intermediate = 4 * random.between(1, 6);
  s.shared_intermediate = random.one_in(2) ? 4 * random.between(1, 5) : 0;
  s.output_gate = s.shared_intermediate > 0 && random.one_in(2) ? Flagged::kYes : Flagged::kNo;
  s.shared_replay = random.one_in(2) ? Flagged::kYes : Flagged::kNo;
  s.zero_empty = random.one_in(2) ? Flagged::kYes : Flagged::kNo;
  s.cell_rows = s.geo.block_rows + s.geo.row_pad * (random.one_in(2) ? 0 : random.below(10));
  s.saved_rows = random.one_in(3) ? 0 : s.geo.row_pad * random.below(24);
  s.min_phase_tiles = random.between(1, 8);
  s.epoch = random.between(1, 100);
  return s;
}

}  // namespace mok::testing
