// check_tables.hpp: compares the tables of one rank with the brute force, field by field.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <vector>

#include "route/brute_tables.hpp"
#include "route/tables.hpp"
#include "support/random.hpp"

namespace mok::testing {

inline void check_experts(const RouteView& v, const BruteRank& me) {
  ASSERT_EQ(v.expert0, me.first_expert);
  ASSERT_EQ(v.local_experts, me.num_experts);
  ASSERT_EQ(v.num_rows, me.rows.size());
  std::vector<std::uint32_t> empty;
  for (std::uint32_t e = 0; e < me.num_experts; ++e) {
    std::vector<std::uint32_t> from(v.num_ranks);
    for (const BruteRow& row : me.rows) {
      from[row.source] += row.expert == me.first_expert + e ? 1U : 0U;
    }
    std::uint32_t sum = 0;
    for (std::uint32_t s = 0; s < v.num_ranks; ++s) {
      ASSERT_EQ(v.source_prefix[e * (v.num_ranks + 1) + s], sum);
      sum += from[s];
    }
    ASSERT_EQ(v.source_prefix[e * (v.num_ranks + 1) + v.num_ranks], sum);
    ASSERT_EQ(v.expert_row0[e], me.expert_row0[e]);
    if (sum == 0) {
      empty.push_back(e);
    }
  }
  ASSERT_EQ(v.expert_row0[v.local_experts], me.expert_row0.back());
  ASSERT_EQ(std::vector<std::uint32_t>(v.empty_experts, v.empty_experts + v.num_empty), empty);
}

inline void check_blocks(const RouteView& v, const BruteRank& me) {
  ASSERT_EQ(v.num_blocks, me.blocks.size());
  ASSERT_EQ(v.num_phases, me.num_phases);
  std::size_t row = 0;
  std::uint32_t saved = 0;
  std::uint32_t saved_end = 0;
  std::vector<std::uint32_t> phase_block, phase_row, phase_part;
  for (std::uint32_t b = 0; b < v.num_blocks; ++b) {
    const BlockRecord& block = v.blocks[b];
    const BruteBlock& want = me.blocks[b];
    ASSERT_EQ(block.row0, want.row0);
    ASSERT_EQ(block.expert, want.expert);
    ASSERT_EQ(block.phase, want.phase);
    ASSERT_EQ(block.rows, want.rows);
    ASSERT_EQ(block.padded_rows, want.padded);
    ASSERT_EQ(block.first_source, me.rows[row].source);
    row += block.rows;
    if (want.saved) {
      ++saved;
      saved_end = want.row0 + want.padded;
    }
    if (want.phase == phase_block.size()) {
      phase_block.push_back(b);
      phase_row.push_back(want.row0);
      phase_part.push_back(want.part);
    }
  }
  ASSERT_EQ(row, v.num_rows);
  ASSERT_EQ(v.saved_blocks, saved);
  ASSERT_EQ(v.saved_row_end, saved_end);
  phase_block.push_back(v.num_blocks);
  phase_row.push_back(me.expert_row0.back());
  phase_part.push_back(me.num_parts);
  for (std::uint32_t p = 0; p <= v.num_phases; ++p) {
    ASSERT_EQ(v.phases[p].first_block, phase_block[p]);
    ASSERT_EQ(v.phases[p].row0, phase_row[p]);
    ASSERT_EQ(v.phases[p].first_part, phase_part[p]);
  }
}

// What the rule promises, said without an algorithm.
inline void check_phase_rule(const RouteView& v, const Geometry& geo, const BruteRule& rule) {
  const auto rows_of_expert = [&](std::uint32_t e) {
    return v.source_prefix[e * (v.num_ranks + 1) + v.num_ranks];
  };
  const auto padded = [&](std::uint32_t e) { return pad_up(rows_of_expert(e), geo.row_pad); };
  for (std::uint32_t p = 0; p < v.num_phases; ++p) {
    const std::uint32_t first = v.phases[p].first_block;
    const std::uint32_t last = v.phases[p + 1].first_block - 1;
    const std::uint32_t rows = v.phases[p + 1].row0 - v.phases[p].row0;
    ASSERT_LE(first, last);
    ASSERT_LE(rows, rule.cell_rows);
    const std::uint32_t e_first = v.blocks[first].expert;
    const std::uint32_t e_last = v.blocks[last].expert;
    if (padded(e_first) > rule.cell_rows) {
      ASSERT_EQ(e_first, e_last) << "a split expert shares no phase";
      continue;
    }
    ASSERT_EQ(v.blocks[first].row0, v.expert_row0[e_first]) << "whole experts";
    ASSERT_EQ(v.phases[p + 1].row0, v.expert_row0[e_last] + padded(e_last)) << "whole experts";
    const std::uint32_t tiles = (last + 1 - first) * rule.tiles_per_block;
    if (tiles < rule.min_phase_tiles && last + 1 < v.num_blocks) {
      ASSERT_GT(rows + padded(v.blocks[last + 1].expert), rule.cell_rows) << "closed too early";
    }
    std::uint32_t last_expert_blocks = 0;
    for (std::uint32_t b = first; b <= last; ++b) {
      last_expert_blocks += v.blocks[b].expert == e_last ? 1U : 0U;
    }
    ASSERT_TRUE(e_first == e_last ||
                (last + 1 - first - last_expert_blocks) * rule.tiles_per_block <
                    rule.min_phase_tiles)
        << "closed too late";
  }
}

inline void check_parts(const RouteView& v, const BruteRank& me) {
  ASSERT_EQ(v.num_parts, me.num_parts);
  std::uint32_t spill_phase = kNoPhase;
  std::set<std::uint32_t> finished;  // experts whose last part has been seen
  for (std::uint32_t i = 0; i < v.num_parts; ++i) {
    const PartRecord& part = v.parts[i];
    std::vector<std::uint32_t> blocks;
    for (std::uint32_t b = 0; b < me.blocks.size(); ++b) {
      if (me.blocks[b].part == i) {
        blocks.push_back(b);
      }
    }
    ASSERT_EQ(part.first_block, blocks.front());
    ASSERT_EQ(part.num_blocks, blocks.size());
    ASSERT_EQ(part.expert, me.blocks[blocks.front()].expert);
    const bool before = blocks.front() > 0 && me.blocks[blocks.front() - 1].expert == part.expert;
    const bool after =
        blocks.back() + 1 < me.blocks.size() && me.blocks[blocks.back() + 1].expert == part.expert;
    ASSERT_EQ(part.reload, before ? 1U : 0U);
    ASSERT_EQ(part.spill, after ? 1U : 0U);
    ASSERT_EQ(part.wait_phase, before || after ? spill_phase : kNoPhase);
    if (before || after) {
      spill_phase = me.blocks[blocks.front()].phase;
    }
    if (!after) {
      ASSERT_TRUE(finished.insert(part.expert).second) << "two parts write the gradient";
    }
  }
  ASSERT_EQ(finished.size() + v.num_empty, v.local_experts);
}

// Tables of this rank about its own slots: where they are sorted to and where they are computed.
inline void check_own(const RouteView& v, const Batch& batch, const std::vector<BruteRank>& ranks) {
  std::uint32_t at = 0;
  for (const BruteRank& owner : ranks) {
    for (std::uint32_t e = 0; e < owner.num_experts; ++e) {
      const std::uint32_t expert = owner.first_expert + e;
      ASSERT_EQ(v.own_offset[expert], at);
      const auto begin = std::find_if(owner.rows.begin(), owner.rows.end(),
                                      [&](const BruteRow& row) { return row.expert == expert; });
      std::uint32_t before = 0;
      for (auto row = begin; row != owner.rows.end() && row->expert == expert; ++row) {
        before += row->source < v.rank ? 1U : 0U;
        if (row->source == v.rank) {
          ASSERT_EQ(v.sorted_slots[at++], row->slot);
        }
      }
      ASSERT_EQ(v.own_prefix[expert], before);
      if (begin != owner.rows.end()) {
        ASSERT_EQ(v.global_row0[expert], owner.expert_row0[e]);
      }
    }
  }
  ASSERT_EQ(v.own_offset[batch.experts], at);
}

// slot_offset and source_of find every row's slot in its source's sorted slots.
inline void check_sources(const RouteView& v, const BruteRank& me,
                          const std::vector<std::vector<std::uint32_t>>& sorted) {
  std::vector<std::uint32_t> owned(v.num_ranks);
  for (const BruteRow& row : me.rows) {
    const BlockRecord& block = v.blocks[row.block];
    const std::uint32_t e = row.expert - me.first_expert;
    const std::uint32_t index = row.padded_row - v.expert_row0[e];
    const std::uint32_t source = source_of(v, e, index, block.first_source);
    ASSERT_EQ(source, row.source);
    const std::uint32_t place = v.slot_offset[std::size_t{source} * v.local_experts + e] + index -
                                v.source_prefix[std::size_t{e} * (v.num_ranks + 1) + source];
    ASSERT_EQ(sorted[source][place], row.slot);
    ++owned[source];
  }
  ASSERT_EQ(std::vector<std::uint32_t>(v.rows_of, v.rows_of + v.num_ranks), owned);
}

inline void check_runs(const RouteView& v, const ExchangeRecord& record,
                       const std::vector<const BruteRow*>& mine, std::uint32_t begin,
                       std::uint32_t end) {
  std::uint32_t at = begin;
  for_each_run(v, record, begin, end, [&](const ExchangeRun& run) {
    ASSERT_GT(run.count, 0U);
    for (std::uint32_t i = 0; i < run.count; ++i, ++at) {
      ASSERT_LT(at, end);
      ASSERT_EQ(run.expert, mine[at]->expert);
      ASSERT_EQ(run.peer_row + i, mine[at]->padded_row);
      ASSERT_EQ(v.sorted_slots[v.own_offset[run.expert] + run.index + i], mine[at]->slot);
    }
  });
  ASSERT_EQ(at, end);
}

inline void check_records(const RouteView& v, const Geometry& geo,
                          const std::vector<BruteRank>& ranks, Random& random) {
  std::uint32_t max_phases = 0;
  for (const BruteRank& rank : ranks) {
    max_phases = std::max(max_phases, rank.num_phases);
  }
  ASSERT_EQ(v.max_phases, max_phases);
  std::uint32_t at = 0;
  std::uint32_t stripes[3] = {0, 0, 0};
  for (std::uint32_t phase = 0; phase < max_phases; ++phase) {
    ASSERT_EQ(v.record0[phase], at);
    for (std::uint32_t i = 0; i < v.num_ranks; ++i) {
      const std::uint32_t peer = (v.rank + i) % v.num_ranks;
      if (phase >= ranks[peer].num_phases) {
        continue;
      }
      std::vector<const BruteRow*> mine;
      std::uint32_t saved_rows = 0;
      bool any_saved = false;
      bool any_replay = false;
      std::uint32_t row0 = ~0U;
      for (const BruteBlock& block : ranks[peer].blocks) {
        if (block.phase == phase) {
          any_saved |= block.saved;
          any_replay |= !block.saved;
          row0 = std::min(row0, block.row0);
        }
      }
      for (const BruteRow& row : ranks[peer].rows) {
        if (row.phase == phase && row.source == v.rank) {
          mine.push_back(&row);
          saved_rows += ranks[peer].blocks[row.block].saved ? 1U : 0U;
        }
      }
      const auto rows = static_cast<std::uint32_t>(mine.size());
      const ExchangeRecord& record = v.records[at++];
      ASSERT_EQ(record.peer, peer);
      ASSERT_EQ(record.phase, phase);
      ASSERT_EQ(record.phase_row0, row0);
      ASSERT_EQ(record.rows, rows);
      ASSERT_EQ(record.saved_rows, saved_rows);
      const std::uint32_t windows[3][2] = {
          {rows, 1}, {saved_rows, any_saved ? 1U : 0U}, {rows - saved_rows, any_replay ? 1U : 0U}};
      for (int w = 0; w < 3; ++w) {
        ASSERT_EQ(record.stripe0[w], stripes[w]) << "window " << w;
        stripes[w] +=
            std::max((windows[w][0] + geo.stripe_rows - 1) / geo.stripe_rows, windows[w][1]);
      }
      check_runs(v, record, mine, 0, rows);
      const std::uint32_t begin = random.between(0, rows);
      check_runs(v, record, mine, begin, random.between(begin, rows));
    }
  }
  ASSERT_EQ(v.record0[max_phases], at);
  ASSERT_EQ(v.num_records, at);
  for (int w = 0; w < 3; ++w) {
    ASSERT_EQ(v.records[at].stripe0[w], stripes[w]);
  }
}

}  // namespace mok::testing
