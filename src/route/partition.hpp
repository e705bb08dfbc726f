// partition.hpp: cuts a rank's rows into blocks, phases and parts. Every rank can do it for every other
// rank, from the counts alone.
//
// A phase takes whole experts until it has min_phase_tiles tiles and never exceeds a ring cell. An
// expert larger than a cell starts a phase, is split at block borders, and ends its last phase: no two
// split experts share a phase, so one spill buffer serves them all. A block is cut where the saved rows
// of a context end, so that each block is saved whole or not at all.
#pragma once

#include "core/geometry.hpp"
#include "route/tables.hpp"

namespace mok {

struct PartitionRule {
  std::uint32_t cell_rows = 0;
  std::uint32_t tiles_per_block = 1;  // of the GEMM with fewer tiles
  std::uint32_t min_phase_tiles = 1;  // two waves
  std::uint32_t saved_rows = 0;       // padded rows that a saving context holds, n * row_pad
};

// What partition() reports for each block, in row order.
struct PartitionBlock {
  std::uint32_t expert;  // local
  std::uint32_t index0;  // first row's place among the expert's rows
  std::uint32_t rows;
  std::uint32_t padded_rows;
  std::uint32_t row0;
  std::uint32_t phase;
  bool opens_phase;
  bool opens_part;
  bool expert_split;
  bool expert_ends;
  bool saved;
};

// total_of(local expert) gives its rows; on_block and on_empty are called in order. Returns the number
// of phases.
template <class Geo, class TotalOf, class OnBlock, class OnEmpty>
MOK_HD std::uint32_t partition(const Geo& geo, const PartitionRule& rule, std::uint32_t num_local,
                               TotalOf total_of, OnBlock on_block, OnEmpty on_empty) {
  std::uint32_t row0 = 0;
  std::uint32_t num_phases = 0;
  std::uint32_t phase_rows = 0;
  std::uint32_t phase_tiles = 0;
  bool open = false;
  for (std::uint32_t expert = 0; expert < num_local; ++expert) {
    const std::uint32_t rows = total_of(expert);
    if (rows == 0) {
      on_empty(expert);
      continue;
    }
    const std::uint32_t padded = round_up(rows, std::uint32_t{geo.row_pad});
    const bool split = padded > rule.cell_rows;
    if (open && (split || phase_rows + padded > rule.cell_rows)) {
      open = false;
    }
    std::uint32_t block = 0;
    for (std::uint32_t done = 0; done < rows; done += block) {
      const std::uint32_t rest = rows - done;
      block = rest < geo.block_rows ? rest : std::uint32_t{geo.block_rows};
      if (row0 < rule.saved_rows && rule.saved_rows - row0 < block) {
        block = rule.saved_rows - row0;
      }
      const std::uint32_t block_padded = round_up(block, std::uint32_t{geo.row_pad});
      if (open && phase_rows + block_padded > rule.cell_rows) {
        open = false;
      }
      const bool opens_phase = !open;
      if (opens_phase) {
        open = true;
        ++num_phases;
        phase_rows = 0;
        phase_tiles = 0;
      }
      on_block(PartitionBlock{expert, done, block, block_padded, row0, num_phases - 1, opens_phase,
                              opens_phase || done == 0, split, done + block == rows,
                              row0 + block_padded <= rule.saved_rows});
      row0 += block_padded;
      phase_rows += block_padded;
      phase_tiles += rule.tiles_per_block;
    }
    if (split || phase_tiles >= rule.min_phase_tiles) {
      open = false;
    }
  }
  return num_phases;
}

}  // namespace mok
