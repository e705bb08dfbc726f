// build.hpp: from ids to route tables, in three steps: sort own slots, exchange counts (the caller's
// job), derive. Sequential; the GPU build must give the same bits.
#pragma once

#include "core/geometry.hpp"
#include "route/partition.hpp"
#include "route/tables.hpp"
#include "route/tables_layout.hpp"

namespace mok {

// Writable places of the tables inside one allocation.
struct TableStorage {
  std::byte* base = nullptr;
  TablesLayout at;

  template <class T>
  [[nodiscard]] T* array(std::uint64_t offset) const {
    return reinterpret_cast<T*>(base + offset);
  }
  [[nodiscard]] std::uint32_t* words(std::uint64_t offset) const {
    return array<std::uint32_t>(offset);
  }
};

struct BuildInput {
  std::uint32_t rank = 0;
  std::uint32_t num_ranks = 1;
  std::uint32_t experts = 0;
  std::uint32_t topk = 0;
  PartitionRule rule;
};

// Step 1. Stable counting sort of this rank's slots (token*k+slot) by expert; -1 is left out. Writes
// counts[E] (the rank's own row) and the sorted slots. `cursor` is scratch of E words.
inline void sort_slots(const std::int32_t* ids, std::uint32_t num_slots, std::uint32_t experts,
                       std::uint32_t* counts, std::uint32_t* sorted, std::uint32_t* cursor) {
  for (std::uint32_t e = 0; e < experts; ++e) {
    counts[e] = 0;
  }
  for (std::uint32_t slot = 0; slot < num_slots; ++slot) {
    if (ids[slot] >= 0) {
      ++counts[ids[slot]];
    }
  }
  std::uint32_t sum = 0;
  for (std::uint32_t e = 0; e < experts; ++e) {
    cursor[e] = sum;
    sum += counts[e];
  }
  for (std::uint32_t slot = 0; slot < num_slots; ++slot) {
    if (ids[slot] >= 0) {
      sorted[cursor[ids[slot]]++] = slot;
    }
  }
}

namespace build_detail {

inline void derive_experts(const BuildInput& in, const TableStorage& to, RouteView& view) {
  const std::uint32_t* counts = to.words(to.at.counts);
  std::uint32_t* prefix = to.words(to.at.source_prefix);
  std::uint32_t* offset = to.words(to.at.slot_offset);
  std::uint32_t* rows_of = to.words(to.at.rows_of);
  for (std::uint32_t s = 0; s < in.num_ranks; ++s) {
    const std::uint32_t* row = counts + static_cast<std::uint64_t>(s) * in.experts;
    std::uint32_t before = 0;
    for (std::uint32_t e = 0; e < view.expert0; ++e) {
      before += row[e];
    }
    rows_of[s] = 0;
    for (std::uint32_t e = 0; e < view.local_experts; ++e) {
      offset[static_cast<std::uint64_t>(s) * view.local_experts + e] = before;
      before += row[view.expert0 + e];
      rows_of[s] += row[view.expert0 + e];
    }
    view.num_rows += rows_of[s];
  }
  for (std::uint32_t e = 0; e < view.local_experts; ++e) {
    std::uint32_t* own = prefix + static_cast<std::uint64_t>(e) * (in.num_ranks + 1);
    own[0] = 0;
    for (std::uint32_t s = 0; s < in.num_ranks; ++s) {
      own[s + 1] = own[s] + counts[static_cast<std::uint64_t>(s) * in.experts + view.expert0 + e];
    }
  }
}

template <class Geo>
void derive_blocks(const Geo& geo, const BuildInput& in, const TableStorage& to, RouteView& view) {
  const std::uint32_t* prefix = to.words(to.at.source_prefix);
  auto* blocks = to.array<BlockRecord>(to.at.blocks);
  auto* phases = to.array<PhaseRecord>(to.at.phases);
  auto* parts = to.array<PartRecord>(to.at.parts);
  std::uint32_t* empty = to.words(to.at.empty_experts);
  std::uint32_t* expert_row0 = to.words(to.at.expert_row0);
  std::uint32_t row_end = 0;
  std::uint32_t spill_phase = kNoPhase;  // last phase that touched the spill memory
  const std::uint32_t stride = in.num_ranks + 1;
  const auto total_of = [&](std::uint32_t e) {
    return prefix[static_cast<std::uint64_t>(e) * stride + in.num_ranks];
  };
  const auto on_block = [&](const PartitionBlock& b) {
    if (b.index0 == 0) {
      expert_row0[b.expert] = b.row0;
    }
    if (b.opens_phase) {
      phases[b.phase] = PhaseRecord{b.row0, view.num_blocks, view.num_parts, 0};
    }
    if (b.opens_part) {
      PartRecord& part = parts[view.num_parts++];
      part.expert = b.expert;
      part.first_block = view.num_blocks;
      part.num_blocks = 0;
      part.reload = b.index0 > 0 ? 1U : 0U;
      part.spill = b.expert_split ? 1U : 0U;
      part.wait_phase = b.expert_split ? spill_phase : kNoPhase;
    }
    PartRecord& part = parts[view.num_parts - 1];
    ++part.num_blocks;
    if (b.expert_split) {
      spill_phase = b.phase;
      if (b.expert_ends) {
        part.spill = 0;
      }
    }
    const RouteView sources{.num_ranks = in.num_ranks, .source_prefix = prefix};
    blocks[view.num_blocks] =
        BlockRecord{b.row0,
                    static_cast<std::uint16_t>(b.expert),
                    static_cast<std::uint16_t>(source_of(sources, b.expert, b.index0, 0)),
                    b.phase,
                    static_cast<std::uint16_t>(b.rows),
                    static_cast<std::uint16_t>(b.padded_rows)};
    ++view.num_blocks;
    row_end = b.row0 + b.padded_rows;
    if (b.saved) {
      view.saved_blocks = view.num_blocks;
      view.saved_row_end = row_end;
    }
  };
  const auto on_empty = [&](std::uint32_t e) {
    expert_row0[e] = row_end;
    empty[view.num_empty++] = e;
  };
  view.num_phases = partition(geo, in.rule, view.local_experts, total_of, on_block, on_empty);
  phases[view.num_phases] = PhaseRecord{row_end, view.num_blocks, view.num_parts, 0};
  expert_row0[view.local_experts] = row_end;
}

// Partition of any rank, from the counts; calls on_block with global facts of this rank's rows.
template <class Geo, class OnBlock>
std::uint32_t partition_of(const Geo& geo, const BuildInput& in, const std::uint32_t* counts,
                           std::uint32_t peer, OnBlock on_block) {
  const std::uint32_t expert0 = expert_begin(in.experts, in.num_ranks, peer);
  const auto total_of = [&](std::uint32_t e) {
    std::uint32_t sum = 0;
    for (std::uint32_t s = 0; s < in.num_ranks; ++s) {
      sum += counts[static_cast<std::uint64_t>(s) * in.experts + expert0 + e];
    }
    return sum;
  };
  return partition(geo, in.rule, local_experts(in.experts, in.num_ranks, peer), total_of, on_block,
                   [](std::uint32_t) {});
}

template <class Geo>
void derive_exchange(const Geo& geo, const BuildInput& in, const TableStorage& to,
                     RouteView& view) {
  const std::uint32_t* counts = to.words(to.at.counts);
  const std::uint32_t* own = counts + static_cast<std::uint64_t>(in.rank) * in.experts;
  std::uint32_t* own_offset = to.words(to.at.own_offset);
  std::uint32_t* own_prefix = to.words(to.at.own_prefix);
  std::uint32_t* global_row0 = to.words(to.at.global_row0);
  auto* records = to.array<ExchangeRecord>(to.at.records);
  std::uint32_t* record0 = to.words(to.at.record0);
  own_offset[0] = 0;
  for (std::uint32_t e = 0; e < in.experts; ++e) {
    own_offset[e + 1] = own_offset[e] + own[e];
    own_prefix[e] = 0;
    for (std::uint32_t s = 0; s < in.rank; ++s) {
      own_prefix[e] += counts[static_cast<std::uint64_t>(s) * in.experts + e];
    }
    global_row0[e] = 0;
  }
  // Pass 1: how many ranks have a phase p; record0 becomes the first record of each phase.
  view.max_phases = 0;
  record0[0] = 0;
  for (std::uint32_t peer = 0; peer < in.num_ranks; ++peer) {
    const std::uint32_t phases = partition_of(geo, in, counts, peer, [](const PartitionBlock&) {});
    while (view.max_phases < phases) {
      record0[++view.max_phases] = 0;
    }
    for (std::uint32_t p = 0; p < phases; ++p) {
      ++record0[p + 1];
    }
  }
  for (std::uint32_t p = 0; p < view.max_phases; ++p) {
    record0[p + 1] += record0[p];
  }
  view.num_records = record0[view.max_phases];
  // Pass 2: fill, peers in an order rotated by the own rank; record0 serves as the cursor.
  for (std::uint32_t i = 0; i < in.num_ranks; ++i) {
    const std::uint32_t peer = (in.rank + i) % in.num_ranks;
    const std::uint32_t expert0 = expert_begin(in.experts, in.num_ranks, peer);
    std::uint32_t at = 0;
    partition_of(geo, in, counts, peer, [&](const PartitionBlock& b) {
      const std::uint32_t e = expert0 + b.expert;
      if (b.index0 == 0) {
        global_row0[e] = b.row0;
      }
      const std::uint32_t first = own_prefix[e];
      const std::uint32_t last = first + own[e];
      const std::uint32_t low = first > b.index0 ? first : b.index0;
      const std::uint32_t high = last < b.index0 + b.rows ? last : b.index0 + b.rows;
      const std::uint32_t mine = low < high ? high - low : 0;
      if (b.opens_phase) {
        at = record0[b.phase]++;
        records[at] = ExchangeRecord{};
        records[at].first_expert = e;
        records[at].first_index =
            b.index0 <= first ? 0 : (b.index0 < last ? b.index0 : last) - first;
        records[at].peer = peer;
        records[at].phase = b.phase;
        records[at].phase_row0 = b.row0;
      }
      ExchangeRecord& record = records[at];
      record.rows += mine;
      record.stripe0[static_cast<int>(Window::kAll)] = 1;
      if (b.saved) {
        record.saved_rows += mine;
        record.stripe0[static_cast<int>(Window::kSaved)] = 1;
      } else {
        record.stripe0[static_cast<int>(Window::kReplay)] = 1;
      }
    });
  }
  for (std::uint32_t p = view.max_phases; p > 0; --p) {
    record0[p] = record0[p - 1];
  }
  record0[0] = 0;
  std::uint32_t sums[3] = {0, 0, 0};
  for (std::uint32_t i = 0; i < view.num_records; ++i) {
    ExchangeRecord& record = records[i];
    const std::uint32_t rows[3] = {record.rows, record.saved_rows, record.rows - record.saved_rows};
    for (int w = 0; w < 3; ++w) {
      const std::uint32_t stripes = ceil_div(rows[w], std::uint32_t{geo.stripe_rows});
      const std::uint32_t takes_part = record.stripe0[w];
      record.stripe0[w] = sums[w];
      sums[w] += stripes > takes_part ? stripes : takes_part;
    }
  }
  records[view.num_records] = ExchangeRecord{};
  for (int w = 0; w < 3; ++w) {
    records[view.num_records].stripe0[w] = sums[w];
  }
}

}  // namespace build_detail

// Step 3. counts[R][E] and sorted_slots are in place; writes everything else and returns the view.
template <class Geo>
RouteView derive_tables(const Geo& geo, const BuildInput& in, const TableStorage& to) {
  RouteView view;
  view.rank = in.rank;
  view.num_ranks = in.num_ranks;
  view.experts = in.experts;
  view.topk = in.topk;
  view.expert0 = expert_begin(in.experts, in.num_ranks, in.rank);
  view.local_experts = local_experts(in.experts, in.num_ranks, in.rank);
  view.cell_rows = in.rule.cell_rows;
  build_detail::derive_experts(in, to, view);
  build_detail::derive_blocks(geo, in, to, view);
  build_detail::derive_exchange(geo, in, to, view);
  view.counts = to.words(to.at.counts);
  view.source_prefix = to.words(to.at.source_prefix);
  view.slot_offset = to.words(to.at.slot_offset);
  view.expert_row0 = to.words(to.at.expert_row0);
  view.blocks = to.array<BlockRecord>(to.at.blocks);
  view.phases = to.array<PhaseRecord>(to.at.phases);
  view.parts = to.array<PartRecord>(to.at.parts);
  view.empty_experts = to.words(to.at.empty_experts);
  view.rows_of = to.words(to.at.rows_of);
  view.sorted_slots = to.words(to.at.sorted_slots);
  view.own_offset = to.words(to.at.own_offset);
  view.own_prefix = to.words(to.at.own_prefix);
  view.global_row0 = to.words(to.at.global_row0);
  view.records = to.array<ExchangeRecord>(to.at.records);
  view.record0 = to.words(to.at.record0);
  return view;
}

}  // namespace mok
