// memory_test.cpp: memory is a function of shape and options alone: the formula equals what is allocated.
#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "support/layer_rig.hpp"
#include "support/random.hpp"

namespace mok::testing {
namespace {

LayerSpec draw_spec(Random& random) {
  LayerSpec spec;
  spec.tokens.assign(random.between(1, 4), random.between(0, 200));
  spec.hidden = 8 * random.between(1, 40);
  spec.intermediate = 8 * random.between(1, 40);
  spec.shared = 8 * random.below(20);
  spec.output_gate = spec.shared > 0 && random.one_in(2);
  spec.experts = random.between(1, 40);
  spec.topk =
      random.between(1, static_cast<std::uint32_t>(std::min<std::int64_t>(spec.experts, 8)));
  spec.options.combine = static_cast<Combine>(random.below(3));
  spec.options.dx_combine = static_cast<Combine>(random.below(3));
  spec.options.save = static_cast<Save>(random.below(2));
  spec.options.ring_rows = random.one_in(2) ? 0 : 384 + std::int64_t{64} * random.below(9);
  spec.options.saved_rows = random.one_in(2) ? -1 : std::int64_t{64} * random.below(9);
  spec.options.workers = static_cast<int>(random.between(0, 3));
  return spec;
}

TEST(Memory, FormulaEqualsAllocation) {
  Random random(test_seed());
  for (int i = 0; i < 60; ++i) {
    const LayerSpec spec = draw_spec(random);
    const MemoryFormula formula =
        memory_formula(spec.shape(), spec.options, spec.num_ranks()).value();
    EXPECT_EQ(workspace_bytes(spec.shape(), spec.options, spec.num_ranks()).value(),
              formula.workspace_bytes);
    LayerRig rig(spec);
    for (int rank = 0; rank < rig.num_ranks(); ++rank) {
      EXPECT_EQ(rig.workspace(rank).allocated_bytes(), formula.workspace_bytes) << spec;
      EXPECT_EQ(Context::create(rig.workspace(rank)).value().allocated_bytes(),
                formula.context_bytes)
          << spec;
    }
    const auto sum = [](const std::vector<MemoryTerm>& terms) {
      std::uint64_t bytes = 0;
      for (const MemoryTerm& term : terms) {
        bytes += term.bytes;
      }
      return bytes;
    };
    EXPECT_EQ(sum(formula.workspace), formula.workspace_bytes) << spec;
    EXPECT_EQ(sum(formula.context), formula.context_bytes) << spec;
  }
}

// The terms of docs/memory.md, computed from its table.
TEST(Memory, TermsAreThoseOfTheDocument) {
  Random random(test_seed() + 1);
  for (int i = 0; i < 60; ++i) {
    const LayerSpec spec = draw_spec(random);
    const auto u64 = [](std::int64_t value) { return static_cast<std::uint64_t>(value); };
    const auto up = [](std::uint64_t value, std::uint64_t by) {
      return (value + by - 1) / by * by;
    };
    const auto array = [&](std::uint64_t bytes) { return up(bytes, 256); };
    const std::uint64_t ranks = spec.tokens.size();
    const std::uint64_t t = u64(spec.shape().max_tokens);
    const std::uint64_t tk = t * u64(spec.topk);
    const std::uint64_t h = u64(spec.hidden);
    const std::uint64_t width = u64(spec.intermediate);
    const std::uint64_t s = u64(spec.shared);
    const std::uint64_t local = (u64(spec.experts) + ranks - 1) / ranks;
    std::uint64_t ring = std::max<std::uint64_t>(384, up(tk, 64) + 64 * local);
    ring = (spec.options.ring_rows > 0 ? u64(spec.options.ring_rows) : ring) / 3 / 64 * 64 * 3;
    std::uint64_t saved = up((tk * 5 + 3) / 4, 64) + 64 * local;
    saved = spec.options.saved_rows >= 0 ? u64(spec.options.saved_rows) : saved;
    saved = spec.options.save == Save::kAll ? saved : 0;
    const bool out =
        spec.options.combine != Combine::kScatter || spec.options.dx_combine != Combine::kScatter;
    const std::map<std::string, std::uint64_t> expected{
        {"counts", array(4 * ranks * u64(spec.experts))},
        {"slots and weights", 2 * array(4 * tk)},
        {"staged x", array(2 * t * h)},
        {"staged dy", array(2 * t * h)},
        {"x ring", array(2 * ring * h)},
        {"dy ring", array(2 * ring * h)},
        {"out ring", out ? array(2 * ring * h) + array(4 * ring) : 0},
        {"row routes", array(8 * 3 * ring) + array(4 * 3 * ring)},
        {"landing rows", array(2 * tk * h) + array(4 * tk)},
        {"hidden ring", array(2 * ring * width)},
        {"gate and up rings", 2 * array(2 * ring * width)},
        {"dw partial sums", array(4 * ring * ((width + 63) / 64))},
        {"spill", array(24 * h * width)},
        {"ids", array(4 * tk)},
        {"ids and weights", 2 * array(4 * tk)},
        {"saved x", array(2 * saved * h)},
        {"saved gate and up", 2 * array(2 * saved * width)},
        {"saved shared gate and up", spec.options.save == Save::kAll ? 2 * array(2 * t * s) : 0}};
    const MemoryFormula formula =
        memory_formula(spec.shape(), spec.options, spec.num_ranks()).value();
    std::map<std::string, std::uint64_t> terms;
    for (const auto* list : {&formula.workspace, &formula.context}) {
      for (const MemoryTerm& term : *list) {
        terms[term.name] = term.bytes;
      }
    }
    for (const auto& [name, bytes] : expected) {
      EXPECT_EQ(terms[name], bytes) << name << ": " << spec;
    }
  }
}

TEST(Memory, NeverShrinksWhenASizeGrows) {
  const std::function<void(LayerSpec&)> growths[] = {
      [](LayerSpec& s) { s.max_tokens += 1; },
      [](LayerSpec& s) { s.hidden += 8; },
      [](LayerSpec& s) { s.intermediate += 8; },
      [](LayerSpec& s) { s.shared += 8; },
      [](LayerSpec& s) { s.experts += 1; },
      [](LayerSpec& s) {
        s.topk += 1;
        s.experts += 1;
      },
      [](LayerSpec& s) { s.options.workers += 1; },
      [](LayerSpec& s) { s.options.ring_rows += s.options.ring_rows > 0 ? 64 : 0; },
      [](LayerSpec& s) { s.options.saved_rows += s.options.saved_rows >= 0 ? 64 : 0; }};
  Random random(test_seed() + 2);
  for (int i = 0; i < 100; ++i) {
    LayerSpec spec = draw_spec(random);
    spec.max_tokens = std::max<std::int64_t>(1, spec.tokens[0]);
    spec.options.workers = std::max(1, spec.options.workers);
    const auto before = memory_formula(spec.shape(), spec.options, spec.num_ranks()).value();
    for (const auto& grow : growths) {
      LayerSpec larger = spec;
      grow(larger);
      const auto after = memory_formula(larger.shape(), larger.options, larger.num_ranks()).value();
      EXPECT_GE(after.workspace_bytes, before.workspace_bytes) << spec << " -> " << larger;
      EXPECT_GE(after.context_bytes, before.context_bytes) << spec << " -> " << larger;
    }
  }
}

// B41: all tokens to one rank, a ring and a context far below its rows: nothing is dropped, nothing
// grows, and the report says how many rows were computed again.
TEST(Memory, B41AllTokensToOneRankThroughASmallRing) {
  LayerSpec spec;
  spec.tokens = {128, 128, 128, 128};
  spec.experts = 8;
  spec.topk = 2;
  spec.routes = Routes::kOneRank;
  spec.hot = 2;
  spec.options.ring_rows = smallest_ring_rows();
  spec.options.saved_rows = 256;
  const LayerData data(spec);
  LayerRig rig(spec);
  const std::uint64_t before = rig.workspace(2).allocated_bytes();
  LayerResult result(data);
  std::vector<Context> contexts = rig.contexts();
  const std::uint64_t context_before = contexts[2].allocated_bytes();
  ASSERT_EQ(failures(rig.forward(data, result, &contexts)), "");
  const RouteTables routes = contexts[2].routes();
  EXPECT_EQ(routes.num_rows, 1024);
  EXPECT_LE(routes.saved_rows, 256);
  EXPECT_EQ(routes.rows_per_expert[0] + routes.rows_per_expert[1], 1024);
  ASSERT_EQ(failures(rig.backward(data, result, contexts)), "");
  EXPECT_EQ(first_excess(data.problem(), result), "");
  EXPECT_EQ(rig.workspace(2).allocated_bytes(), before);
  EXPECT_EQ(contexts[2].allocated_bytes(), context_before);
  EXPECT_EQ(result.forward[2].rows, 1024);
  EXPECT_GT(result.forward[2].ring_turns, 2);
  EXPECT_EQ(result.backward[2].replayed_rows, 1024 - routes.saved_rows);  // no pads in full blocks
  for (const std::size_t rank : {std::size_t{0}, std::size_t{1}, std::size_t{3}}) {
    EXPECT_EQ(result.forward[rank].rows, 0);
    EXPECT_EQ(result.backward[rank].replayed_rows, 0);
  }
}

TEST(Memory, WhatTheMachineLacksIsATypedError) {
  if (kSanitized) {
    GTEST_SKIP() << "sanitizers end the program instead";
  }
  LayerSpec spec;
  spec.hidden = std::int64_t{1} << 30;
  spec.topk = 1;
  spec.intermediate = 8;
  spec.tokens = {1};
  spec.options.ring_rows = std::int64_t{1} << 24;  // rings of 2^55 bytes
  const auto made = Workspace::create(World::local(1).value()[0], spec.shape(), spec.options);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code(), Code::kEnvironment) << made.error().message();
  EXPECT_NE(made.error().value().find(
                std::to_string(workspace_bytes(spec.shape(), spec.options, 1).value())),
            std::string::npos);
}

}  // namespace
}  // namespace mok::testing
