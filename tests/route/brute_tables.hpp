// brute_tables.hpp: what route tables must say, from a plain sort of all slots of all ranks. Shares
// no code with src/route.
#pragma once

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <vector>

#include "core/geometry.hpp"
#include "support/batch.hpp"

namespace mok::testing {

struct BruteRow {
  std::uint32_t expert, source, slot;  // expert is global
  std::uint32_t padded_row;
  std::uint32_t block, phase;  // at the expert's rank
};
struct BruteBlock {
  std::uint32_t expert, row0, rows, padded, phase, part;  // expert is local
  bool saved, split;
};
struct BruteRank {
  std::uint32_t first_expert = 0, num_experts = 0;
  std::vector<BruteRow> rows;  // in row order
  std::vector<BruteBlock> blocks;
  std::vector<std::uint32_t> expert_row0;  // [num_experts + 1]
  std::uint32_t num_phases = 0, num_parts = 0;
};
struct BruteRule {
  std::uint32_t cell_rows, tiles_per_block, min_phase_tiles, saved_rows;
};

inline std::uint32_t pad_up(std::uint32_t rows, std::uint32_t pad) {
  return (rows + pad - 1) / pad * pad;
}

// Cuts the rank's experts into groups first (lists of blocks that share a phase), then numbers
// them.
inline void cut_phases(const Geometry& geo, const BruteRule& rule,
                       const std::vector<std::uint32_t>& rows_of, BruteRank& rank) {
  std::vector<std::vector<BruteBlock>> groups;
  std::vector<BruteBlock> group;
  std::uint32_t row = 0;
  std::uint32_t group_rows = 0;
  const auto close = [&] {
    if (!group.empty()) {
      groups.push_back(group);
    }
    group.clear();
    group_rows = 0;
  };
  for (std::uint32_t e = 0; e < rows_of.size(); ++e) {
    rank.expert_row0.push_back(row);
    std::vector<BruteBlock> blocks;
    for (std::uint32_t left = rows_of[e]; left > 0; left -= blocks.back().rows) {
      // A context keeps whole blocks, so one ends where its rows end.
      const std::uint32_t room = row < rule.saved_rows ? rule.saved_rows - row : geo.block_rows;
      const std::uint32_t rows = std::min({left, geo.block_rows, room});
      const std::uint32_t padded = pad_up(rows, geo.row_pad);
      blocks.push_back({e, row, rows, padded, 0, 0, row + padded <= rule.saved_rows, false});
      row += padded;
    }
    const std::uint32_t whole = pad_up(rows_of[e], geo.row_pad);
    if (whole <= rule.cell_rows) {  // stays together
      if (group_rows + whole > rule.cell_rows) {
        close();
      }
      group.insert(group.end(), blocks.begin(), blocks.end());
      group_rows += whole;
      if (group.size() * rule.tiles_per_block >= rule.min_phase_tiles) {
        close();
      }
      continue;
    }
    close();
    for (BruteBlock& block : blocks) {
      block.split = true;
      if (group_rows + block.padded > rule.cell_rows) {
        close();
      }
      group.push_back(block);
      group_rows += block.padded;
    }
    close();
  }
  close();
  rank.expert_row0.push_back(row);
  for (std::uint32_t phase = 0; phase < groups.size(); ++phase) {
    for (std::size_t i = 0; i < groups[phase].size(); ++i) {
      BruteBlock block = groups[phase][i];
      block.phase = phase;
      if (i == 0 || groups[phase][i - 1].expert != block.expert) {
        ++rank.num_parts;
      }
      block.part = rank.num_parts - 1;
      rank.blocks.push_back(block);
    }
  }
  rank.num_phases = static_cast<std::uint32_t>(groups.size());
}

inline std::vector<BruteRank> brute_tables(const Geometry& geo, const Batch& batch,
                                           const BruteRule& rule) {
  std::vector<BruteRow> all;
  for (std::uint32_t source = 0; source < batch.num_ranks; ++source) {
    for (std::uint32_t slot = 0; slot < batch.ids[source].size(); ++slot) {
      if (batch.ids[source][slot] >= 0) {
        all.push_back({static_cast<std::uint32_t>(batch.ids[source][slot]), source, slot, 0, 0, 0});
      }
    }
  }
  std::sort(all.begin(), all.end(), [](const BruteRow& a, const BruteRow& b) {
    return std::tie(a.expert, a.source, a.slot) < std::tie(b.expert, b.source, b.slot);
  });
  std::vector<BruteRank> ranks(batch.num_ranks);
  std::uint32_t expert = 0;
  std::size_t at = 0;
  for (std::uint32_t r = 0; r < batch.num_ranks; ++r) {
    BruteRank& rank = ranks[r];
    rank.first_expert = expert;
    rank.num_experts =
        batch.experts / batch.num_ranks + (r < batch.experts % batch.num_ranks ? 1 : 0);
    expert += rank.num_experts;
    std::vector<std::uint32_t> rows_of(rank.num_experts);
    while (at < all.size() && all[at].expert < expert) {
      ++rows_of[all[at].expert - rank.first_expert];
      rank.rows.push_back(all[at++]);
    }
    cut_phases(geo, rule, rows_of, rank);
    std::size_t row = 0;
    for (std::uint32_t b = 0; b < rank.blocks.size(); ++b) {
      for (std::uint32_t i = 0; i < rank.blocks[b].rows; ++i, ++row) {
        rank.rows[row].padded_row = rank.blocks[b].row0 + i;
        rank.rows[row].block = b;
        rank.rows[row].phase = rank.blocks[b].phase;
      }
    }
  }
  return ranks;
}

}  // namespace mok::testing
