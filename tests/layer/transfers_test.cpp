// transfers_test.cpp: bytes and remote accesses, counted where they happen, against closed forms.
#include <gtest/gtest.h>

#include "support/layer_rig.hpp"

namespace mok::testing {
namespace {

struct Crossing {
  std::vector<std::uint64_t> in;   // per rank: rows that it computes for others
  std::vector<std::uint64_t> out;  // per rank: rows of its tokens that others compute
};

// Rows that cross ranks; with `saved`, only those that the context of their rank does not hold.
Crossing crossing_rows(const LayerData& data, const std::vector<Context>* saved) {
  const LayerSpec& spec = data.spec;
  const auto ranks = static_cast<std::uint32_t>(spec.num_ranks());
  const auto experts = static_cast<std::uint32_t>(spec.experts);
  Crossing crossing{std::vector<std::uint64_t>(ranks), std::vector<std::uint64_t>(ranks)};
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    const std::int64_t kept = saved == nullptr ? 0 : (*saved)[rank].routes().saved_rows;
    std::int64_t row0 = 0;  // of the expert, padded
    for (std::uint32_t e = expert_begin(experts, ranks, rank);
         e < expert_begin(experts, ranks, rank + 1); ++e) {
      std::int64_t rows = 0;
      for (std::uint32_t source = 0; source < ranks; ++source) {
        const std::int64_t first = spec.first_token(static_cast<int>(source)) * spec.topk;
        const std::int64_t last = spec.first_token(static_cast<int>(source) + 1) * spec.topk;
        for (std::int64_t slot = first; slot < last; ++slot) {
          if (data.ids[static_cast<std::size_t>(slot)] == static_cast<std::int32_t>(e)) {
            if (source != rank && row0 + rows >= kept) {
              ++crossing.in[rank];
              ++crossing.out[source];
            }
            ++rows;
          }
        }
      }
      row0 += round_up(rows, std::int64_t{64});
    }
  }
  return crossing;
}

void expect_reads(const TransferCounts& counts, std::uint64_t rows, std::uint64_t row_bytes) {
  EXPECT_EQ(counts.remote_reads, rows);
  EXPECT_EQ(counts.remote_writes, 0U);
  EXPECT_EQ(counts.bytes, rows * row_bytes);
}
void expect_writes(const TransferCounts& counts, std::uint64_t rows, std::uint64_t row_bytes) {
  EXPECT_EQ(counts.remote_reads, 0U);
  EXPECT_EQ(counts.remote_writes, rows);
  EXPECT_EQ(counts.bytes, rows * row_bytes);
}
void expect_dispatch(const TransferCounts& counts, Dispatch way, const Crossing& rows,
                     std::size_t rank, std::uint64_t row_bytes) {
  way == Dispatch::kPull ? expect_reads(counts, rows.in[rank], row_bytes)
                         : expect_writes(counts, rows.out[rank], row_bytes);
}
void expect_combine(const TransferCounts& counts, Combine way, const Crossing& rows,
                    std::size_t rank, std::uint64_t row_bytes) {
  way == Combine::kPull ? expect_reads(counts, rows.out[rank], row_bytes)
                        : expect_writes(counts, rows.in[rank], row_bytes);
}
void expect_nothing(const TransferCounts& counts) {
  expect_reads(counts, 0, 0);
}

void expect_closed_forms(const LayerSpec& spec) {
  SCOPED_TRACE(::testing::Message() << spec);
  const LayerData data(spec);
  LayerRig rig(spec);
  LayerResult result(data);
  std::vector<Context> contexts = rig.contexts();
  ASSERT_EQ(failures(rig.forward(data, result, &contexts)), "");
  ASSERT_EQ(failures(rig.backward(data, result, contexts)), "");
  const Crossing all = crossing_rows(data, nullptr);
  const Crossing replayed = crossing_rows(data, &contexts);
  const auto row_bytes = static_cast<std::uint64_t>(2 * spec.hidden);
  const Options& o = spec.options;
  for (std::size_t rank = 0; rank < spec.tokens.size(); ++rank) {
    const CallReport& f = result.forward[rank];
    const CallReport& b = result.backward[rank];
    expect_dispatch(f.dispatch, o.dispatch, all, rank, row_bytes);
    expect_combine(f.combine, o.combine, all, rank, row_bytes);
    expect_nothing(f.dy_dispatch);
    expect_nothing(f.dx_combine);
    expect_dispatch(b.dispatch, o.dispatch, replayed, rank, row_bytes);
    expect_nothing(b.combine);
    expect_dispatch(b.dy_dispatch, o.dy_dispatch, all, rank, row_bytes);
    expect_combine(b.dx_combine, o.dx_combine, all, rank, row_bytes);
  }
}

LayerSpec base_spec() {
  LayerSpec spec;
  spec.tokens = {70, 0, 90};
  spec.hidden = 264;  // two column tiles
  spec.experts = 7;
  spec.topk = 3;
  spec.routes = Routes::kSkewed;
  spec.options.workers = 2;
  return spec;
}

TEST(Transfers, EveryDirection) {
  for (int i = 0; i < 12; ++i) {
    LayerSpec spec = base_spec();
    spec.options.dispatch = static_cast<Dispatch>(i % 2);
    spec.options.dy_dispatch = static_cast<Dispatch>(i / 2 % 2);
    spec.options.combine = static_cast<Combine>(i % 3);
    spec.options.dx_combine = static_cast<Combine>((i / 4 + 1) % 3);
    expect_closed_forms(spec);
  }
}

// Rows beyond the context are dispatched again, and counted again.
TEST(Transfers, ReplayedRowsCountAgain) {
  for (const Dispatch dispatch : {Dispatch::kPull, Dispatch::kPush}) {
    for (const std::int64_t saved : {0, 64, 128, 192, 256, 4096}) {
      LayerSpec spec = base_spec();
      spec.options.dispatch = dispatch;
      spec.options.saved_rows = saved;
      spec.options.ring_rows = smallest_ring_rows();
      expect_closed_forms(spec);
    }
    LayerSpec none = base_spec();
    none.options.dispatch = dispatch;
    none.options.save = Save::kNone;
    expect_closed_forms(none);
  }
}

TEST(Transfers, NothingCrossesAtOneRank) {
  for (const Combine combine : {Combine::kScatter, Combine::kPush, Combine::kPull}) {
    LayerSpec spec = base_spec();
    spec.tokens = {120};
    spec.options.combine = spec.options.dx_combine = combine;
    spec.options.dispatch = combine == Combine::kPush ? Dispatch::kPush : Dispatch::kPull;
    expect_closed_forms(spec);
  }
}

// The reports' other numbers.
TEST(Transfers, RowsAndPhasesAreReported) {
  LayerSpec spec = base_spec();
  spec.options.ring_rows = smallest_ring_rows();
  const LayerData data(spec);
  const LayerResult result = run_layer(data);
  std::int64_t rows = 0;
  for (std::size_t rank = 0; rank < 3; ++rank) {
    const CallReport& f = result.forward[rank];
    rows += f.rows;
    EXPECT_EQ(f.epoch, 1U);
    EXPECT_EQ(result.backward[rank].epoch, 2U);
    EXPECT_GE(f.padded_rows, f.rows);
    EXPECT_LT(f.padded_rows, f.rows + 64 * 3);
    EXPECT_GE(f.phases * 128, f.padded_rows) << "a phase holds at most a third of the ring";
    EXPECT_EQ(f.ring_turns, ceil_div(f.phases, std::int64_t{3}));
    EXPECT_EQ(f.replayed_rows, 0);
    EXPECT_EQ(result.backward[rank].rows, f.rows);
  }
  EXPECT_EQ(rows, std::count_if(data.ids.begin(), data.ids.end(),
                                [](std::int32_t id) { return id >= 0; }));
}

}  // namespace
}  // namespace mok::testing
