// scalar_layer_test.cpp: a training step by the scalar engine, small enough for an emulated Arm.
//
// Runs with every build. On each machine the outputs must be within the reference's bounds; the lines
// `bits NAME HASH` let run.sh hold the Arm's bits against those of the machine that compiled it. The
// two are equal as long as both C libraries round exp alike.
#include <gtest/gtest.h>

#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <span>
#include <vector>

#include "support/layer_data.hpp"
#include "support/layer_rig.hpp"

namespace mok::testing {
namespace {

std::uint64_t fnv1a(std::span<const std::byte> bytes) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const std::byte byte : bytes) {
    hash = (hash ^ static_cast<std::uint64_t>(byte)) * 0x100000001b3ULL;
  }
  return hash;
}

template <class T>
void print_bits(const char* name, const std::vector<T>& values) {
  std::printf("bits %s %016" PRIx64 "\n", name, fnv1a(std::as_bytes(std::span(values))));
}

void print_bits(const char* name, const GradArray& grad) {
  grad.kind == Grad::kBf16 ? print_bits(name, grad.bf16) : print_bits(name, grad.f32);
}

LayerSpec small_layer() {
  LayerSpec spec;
  spec.tokens = {21, 0, 34};
  spec.hidden = 40;
  spec.intermediate = 24;
  spec.shared = 16;
  spec.experts = 7;
  spec.topk = 3;
  spec.output_gate = true;
  spec.limit = 0.9F;
  spec.options.workers = 2;
  spec.options.saved_rows = 64;  // the backward computes the rest again
  spec.options.ring_rows = smallest_ring_rows();
  spec.routes = Routes::kSkewed;
  spec.seed = 20;
  return spec;
}

TEST(ScalarLayerTest, StepIsWithinTheBounds) {
  const LayerData data(small_layer());
  const LayerResult result = run_layer(data);
  EXPECT_EQ(first_excess(data.problem(), result), "");
  EXPECT_GT(result.backward[0].replayed_rows + result.backward[1].replayed_rows, 0);

  print_bits("y", result.y);
  print_bits("dx", result.dx);
  print_bits("d_router", result.d_router);
  print_bits("d_gate", result.gate);
  print_bits("d_up", result.up);
  print_bits("d_down", result.down);
  for (const GradArray& grad : result.shared_gate) {
    print_bits("d_shared_gate", grad);
  }
  for (const GradArray& grad : result.shared_output_gate) {
    print_bits("d_shared_output_gate", grad);
  }
}

// Two machines that derive different tables could not be ranks of one group.
TEST(ScalarLayerTest, RouteTablesHaveOneForm) {
  const LayerData data(small_layer());
  LayerRig rig(data.spec);
  LayerResult result(data);
  std::vector<Context> contexts = rig.contexts();
  ASSERT_EQ(failures(rig.forward(data, result, &contexts)), "");
  for (const Context& context : contexts) {
    const RouteView& view = context.impl().view;
    const std::span slots(view.sorted_slots, view.own_offset[view.experts]);
    const std::span blocks(view.blocks, view.num_blocks);
    std::printf("bits slots %016" PRIx64 "\n", fnv1a(std::as_bytes(slots)));
    std::printf("bits blocks %016" PRIx64 "\n", fnv1a(std::as_bytes(blocks)));
    EXPECT_EQ(context.routes().num_blocks, view.num_blocks);
  }
}

}  // namespace
}  // namespace mok::testing
