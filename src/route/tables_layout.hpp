// tables_layout.hpp: where each route table lies in one allocation whose size routing cannot change.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/carver.hpp"
#include "core/sizes.hpp"
#include "route/tables.hpp"

namespace mok {

struct TablesLayout {
  std::uint64_t counts = 0, source_prefix = 0, slot_offset = 0, expert_row0 = 0, blocks = 0,
                phases = 0, parts = 0, empty_experts = 0, rows_of = 0, sorted_slots = 0,
                own_offset = 0, own_prefix = 0, global_row0 = 0, records = 0, record0 = 0,
                bytes = 0;
};

inline TablesLayout make_tables_layout(const Sizes& s) {
  Carver c;
  TablesLayout t;
  const std::uint64_t ranks = s.num_ranks;
  const std::uint64_t local = s.local_experts;
  t.counts = c.take(Carver::mul(ranks, s.experts), 4);
  t.source_prefix = c.take(Carver::mul(local, ranks + 1), 4);
  t.slot_offset = c.take(Carver::mul(ranks, local), 4);
  t.expert_row0 = c.take(local + 1, 4);
  t.blocks = c.take(s.max_blocks, sizeof(BlockRecord));
  t.phases = c.take(Carver::add(s.max_blocks, 1), sizeof(PhaseRecord));
  t.parts = c.take(s.max_blocks, sizeof(PartRecord));  // a part has at least one block
  t.empty_experts = c.take(local, 4);
  t.rows_of = c.take(ranks, 4);
  t.sorted_slots = c.take(s.slots, 4);
  t.own_offset = c.take(s.experts + 1, 4);
  t.own_prefix = c.take(s.experts, 4);
  t.global_row0 = c.take(s.experts, 4);
  t.records = c.take(Carver::add(s.max_records, 1), sizeof(ExchangeRecord));
  t.record0 = c.take(Carver::add(s.max_blocks, 1 + s.local_experts), 4);
  t.bytes = c.bytes();
  return t;
}

}  // namespace mok
