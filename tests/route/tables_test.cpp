// tables_test.cpp: sort_slots and derive_tables against a brute force, for random routing of all
// ranks.
#include "route/tables.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "route/brute_tables.hpp"
#include "route/build.hpp"
#include "route/check_tables.hpp"
#include "support/batch.hpp"
#include "support/random.hpp"
#include "support/tables_world.hpp"

namespace mok::testing {
namespace {

std::vector<std::vector<std::uint32_t>> brute_sorted(const Batch& batch) {
  std::vector<std::vector<std::uint32_t>> sorted(batch.num_ranks);
  for (std::uint32_t rank = 0; rank < batch.num_ranks; ++rank) {
    const auto& ids = batch.ids[rank];
    for (std::uint32_t slot = 0; slot < ids.size(); ++slot) {
      if (ids[slot] >= 0) {
        sorted[rank].push_back(slot);
      }
    }
    std::stable_sort(sorted[rank].begin(), sorted[rank].end(),
                     [&](std::uint32_t a, std::uint32_t b) { return ids[a] < ids[b]; });
  }
  return sorted;
}

BruteRule draw_rule(Random& random, const Geometry& geo) {
  const std::uint32_t cell =
      geo.block_rows + geo.row_pad * (random.one_in(3) ? 0 : random.below(12));
  return BruteRule{cell, random.between(1, 3), random.between(1, 14),
                   random.one_in(3) ? 0 : geo.row_pad * random.below(30)};
}

// All checks of all (or some) ranks of one batch.
void check_world(const Geometry& geo, const Batch& batch, const BruteRule& rule, Random& random,
                 const std::vector<std::uint32_t>& only = {}) {
  const std::vector<BruteRank> brute = brute_tables(geo, batch, rule);
  const PartitionRule partition{rule.cell_rows, rule.tiles_per_block, rule.min_phase_tiles,
                                rule.saved_rows};
  const TablesWorld world(geo, batch, partition, only);
  const auto sorted = brute_sorted(batch);
  for (std::size_t i = 0; i < world.views.size(); ++i) {
    const RouteView& v = world.views[i];
    SCOPED_TRACE("rank " + std::to_string(v.rank));
    ASSERT_NO_FATAL_FAILURE(check_experts(v, brute[v.rank]));
    ASSERT_NO_FATAL_FAILURE(check_blocks(v, brute[v.rank]));
    ASSERT_NO_FATAL_FAILURE(check_phase_rule(v, geo, rule));
    ASSERT_NO_FATAL_FAILURE(check_parts(v, brute[v.rank]));
    ASSERT_NO_FATAL_FAILURE(check_own(v, batch, brute));
    ASSERT_NO_FATAL_FAILURE(check_sources(v, brute[v.rank], sorted));
    ASSERT_NO_FATAL_FAILURE(check_records(v, geo, brute, random));
    ASSERT_TRUE(world.memory[i].gaps_untouched());
  }
}

TEST(RouteTables, EqualTheBruteForceOnSmallGeometry) {
  for (std::uint64_t i = 0; i < 1500; ++i) {
    const std::uint64_t seed = test_seed() * 1'000'000 + i;
    SCOPED_TRACE("MOK_TEST_SEED base " + std::to_string(test_seed()) + ", world " +
                 std::to_string(i));
    Random random(seed);
    const Geometry geo = small_geometry(random.between(1, 2));
    const std::uint32_t ranks = random.between(1, 8);
    const std::uint32_t experts =
        random.between(1, 20);  // often fewer than ranks, seldom a multiple
    const std::uint32_t topk = random.one_in(10) ? random.between(9, 32) : random.between(1, 8);
    const Batch batch = draw_batch(random, ranks, experts, topk, random.one_in(4) ? 2 : 12);
    ASSERT_NO_FATAL_FAILURE(check_world(geo, batch, draw_rule(random, geo), random));
  }
}

TEST(RouteTables, EqualTheBruteForceOnTheDefaultGeometry) {
  for (std::uint64_t i = 0; i < 25; ++i) {
    SCOPED_TRACE("MOK_TEST_SEED base " + std::to_string(test_seed()) + ", world " +
                 std::to_string(i));
    Random random(test_seed() * 2'000'000 + i);
    const Geometry geo;
    const Batch batch =
        draw_batch(random, random.between(1, 8), random.between(1, 24), random.between(1, 8), 300);
    ASSERT_NO_FATAL_FAILURE(check_world(geo, batch, draw_rule(random, geo), random));
  }
}

// B29: E = 512 and others at scale; tables for groups of 72, 144 and 576 ranks.
TEST(RouteTables, ManyRanksAndManyExperts) {
  for (const std::uint32_t ranks : {1U, 8U, 72U, 144U, 576U}) {
    for (const std::uint32_t experts : {1U, 2U, 7U, 60U, 128U, 160U, 256U, 384U, 512U, 1024U}) {
      SCOPED_TRACE("R " + std::to_string(ranks) + ", E " + std::to_string(experts));
      Random random(test_seed() + ranks * 10'000 + experts);
      const Geometry geo = random.one_in(2) ? Geometry{} : small_geometry(2);
      const Batch batch =
          draw_batch(random, ranks, experts, std::min(experts, 8U), ranks > 8 ? 3 : 40);
      const BruteRule rule = draw_rule(random, geo);
      ASSERT_NO_FATAL_FAILURE(check_world(geo, batch, rule, random, {0, ranks / 2, ranks - 1}));
    }
  }
}

TEST(RouteTables, NobodyRoutesAnything) {
  Random random(1);
  Batch batch{3, 5, 2, {0, 4, 0}, {{}, {-1, -1, -1, -1, -1, -1, -1, -1}, {}}};
  check_world(small_geometry(1), batch, BruteRule{4, 1, 1, 0}, random);
  batch.tokens[1] = 0;
  batch.ids[1].clear();
  check_world(small_geometry(1), batch, BruteRule{4, 1, 1, 8}, random);
}

// (expert, row) -> global token and slot, as the ranks' tables say, for one way to split the batch.
std::vector<std::vector<std::uint64_t>> row_order(const Geometry& geo, const Batch& batch,
                                                  const PartitionRule& rule) {
  const TablesWorld world(geo, batch, rule);
  std::vector<std::uint64_t> token0(batch.num_ranks);
  for (std::uint32_t r = 1; r < batch.num_ranks; ++r) {
    token0[r] = token0[r - 1] + batch.tokens[r - 1];
  }
  std::vector<std::vector<std::uint64_t>> order(batch.experts);
  for (const RouteView& v : world.views) {
    for (std::uint32_t b = 0; b < v.num_blocks; ++b) {
      const BlockRecord& block = v.blocks[b];
      for (std::uint32_t i = 0; i < block.rows; ++i) {
        const std::uint32_t index = block.row0 - v.expert_row0[block.expert] + i;
        const std::uint32_t s = source_of(v, block.expert, index, block.first_source);
        const std::uint32_t place = v.slot_offset[s * v.local_experts + block.expert] + index -
                                    v.source_prefix[block.expert * (v.num_ranks + 1) + s];
        order[v.expert0 + block.expert].push_back(token0[s] * batch.topk +
                                                  world.views[s].sorted_slots[place]);
      }
    }
  }
  return order;
}

TEST(RouteTables, RowOrderIsTheGlobalTokenOrderForEveryR) {
  for (std::uint64_t i = 0; i < 100; ++i) {
    SCOPED_TRACE("MOK_TEST_SEED base " + std::to_string(test_seed()) + ", batch " +
                 std::to_string(i));
    Random random(test_seed() * 3'000'000 + i);
    const Geometry geo = small_geometry(2);
    const std::uint32_t experts = random.between(1, 12);
    const std::uint32_t topk = random.between(1, 4);
    const Batch whole = draw_batch(random, 1, experts, topk, 60);
    std::vector<std::vector<std::uint64_t>> want(experts);
    for (std::uint32_t slot = 0; slot < whole.ids[0].size(); ++slot) {
      if (whole.ids[0][slot] >= 0) {
        want[static_cast<std::size_t>(whole.ids[0][slot])].push_back(slot);
      }
    }
    for (const std::uint32_t ranks : {1U, 2U, 3U, 4U, 6U, 8U}) {
      Batch split{ranks, experts, topk, {}, {}};
      std::uint32_t done = 0;
      for (std::uint32_t r = 0; r < ranks; ++r) {
        const std::uint32_t left = whole.tokens[0] - done;
        const std::uint32_t tokens = r + 1 == ranks ? left : random.between(0, left);
        const auto* ids = whole.ids[0].data() + std::size_t{done} * topk;
        split.tokens.push_back(tokens);
        split.ids.emplace_back(ids, ids + std::size_t{tokens} * topk);
        done += tokens;
      }
      const PartitionRule rule{geo.block_rows + geo.row_pad * random.below(10), 1, 4, 6};
      ASSERT_EQ(row_order(geo, split, rule), want) << ranks << " ranks";
    }
  }
}

// Rows times H beyond 2^31 and 2^32: the tables hold 32-bit rows, places are 64-bit.
TEST(RouteTables, OffsetsOfManyRowsAre64Bit) {
  constexpr std::uint64_t kHidden = 7168;
  const Geometry geo;
  const std::uint32_t ranks = 4;
  const std::uint32_t tokens = 100'000;
  const Sizes sizes = table_sizes(geo, ranks, 3, 8, tokens);
  const std::uint32_t each = tokens * 8;  // all slots of all ranks go to expert 0
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    TableMemory memory(sizes);
    const TableStorage storage = memory.storage();
    for (std::uint32_t s = 0; s < ranks; ++s) {
      for (std::uint32_t e = 0; e < 3; ++e) {
        storage.words(storage.at.counts)[s * 3 + e] = e == 0 ? each : 0;
      }
    }
    const std::uint32_t cell = 299'648 + 128;
    const RouteView v = derive_tables(geo, BuildInput{rank, ranks, 3, 8, {cell, 1, 1, 0}}, storage);
    ASSERT_TRUE(memory.gaps_untouched());
    ASSERT_EQ(v.num_rows, rank == 0 ? each * ranks : 0U);
    ASSERT_EQ(v.max_phases, (each * ranks + cell - 1) / cell);
    if (rank != 0) {
      continue;
    }
    ASSERT_EQ(v.num_blocks, each * ranks / 128);
    for (const std::uint32_t b : {0U, 299'593U / 128, 10'000U, v.num_blocks - 1}) {
      const BlockRecord& block = v.blocks[b];
      const std::uint64_t row = std::uint64_t{b} * 128;
      const std::uint64_t phase = row / cell;
      ASSERT_EQ(block.row0, row);
      ASSERT_EQ(block.phase, phase);
      ASSERT_EQ(block.first_source, row / each);
      const std::uint64_t place =
          ring_row(v, geo.cells, block.phase, v.phases[phase].row0, block.row0);
      ASSERT_EQ(place * kHidden * 2,
                ((phase % geo.cells) * std::uint64_t{cell} + row % cell) * kHidden * 2);
    }
    ASSERT_GT(ring_row(v, geo.cells, 2, v.phases[2].row0, v.phases[3].row0 - 1) * kHidden * 2,
              std::uint64_t{1} << 33);
  }
}

TEST(RouteTables, LayoutOfImpossibleSizesSticksAtTheMaximum) {
  Sizes sizes;
  sizes.num_ranks = 65535;
  sizes.experts = sizes.local_experts = 1ULL << 62;
  EXPECT_EQ(make_tables_layout(sizes).bytes, Carver::kOverflow);
}

TEST(ExpertSplit, RangesAreContiguousAndEven) {
  for (std::uint32_t ranks = 1; ranks <= 40; ++ranks) {
    for (std::uint32_t experts = 1; experts <= 90; ++experts) {
      std::uint32_t at = 0;
      for (std::uint32_t r = 0; r < ranks; ++r) {
        ASSERT_EQ(expert_begin(experts, ranks, r), at);
        const std::uint32_t own = local_experts(experts, ranks, r);
        ASSERT_TRUE(own == experts / ranks || own == experts / ranks + 1);
        ASSERT_TRUE(r == 0 || own <= local_experts(experts, ranks, r - 1));
        at += own;
      }
      ASSERT_EQ(at, experts);
    }
  }
}

}  // namespace
}  // namespace mok::testing
