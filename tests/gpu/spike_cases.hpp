// spike_cases.hpp: the cases of the suite moe-layer-v1 and the ways in which the spike runs them.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "program/loopback_world.hpp"

namespace mok::gpu_test {

struct SuiteModel {
  const char* name;
  std::int64_t hidden;
  std::int64_t intermediate;
  std::int64_t experts;
  std::int64_t topk;
};
inline constexpr std::array<SuiteModel, 5> kSuiteModels = {{{"kimi-k2.7", 7168, 2048, 384, 8},
                                                            {"glm-5.2", 6144, 2048, 256, 8},
                                                            {"qwen3.5-397b", 4096, 1024, 512, 10},
                                                            {"deepseek-v4-pro", 7168, 3072, 384, 6},
                                                            {"qwen3-30b", 2048, 768, 128, 8}}};

enum class Slice : std::uint32_t { kEp64, kEp8 };

struct SuiteCase {
  const SuiteModel* model;
  Slice slice;

  [[nodiscard]] std::string name() const {
    return std::string(model->name) + (slice == Slice::kEp64 ? "/ep64" : "/ep8");
  }
  [[nodiscard]] std::int64_t tokens() const { return slice == Slice::kEp64 ? 2048 : 8192; }
  [[nodiscard]] std::int64_t experts(std::uint32_t num_ranks) const {
    return model->experts / (slice == Slice::kEp64 ? 64 : 8) * num_ranks;
  }
};

// qwen3-30b has the slice ep8 only.
inline std::vector<SuiteCase> suite_cases() {
  std::vector<SuiteCase> cases;
  for (const SuiteModel& model : kSuiteModels) {
    if (model.experts >= 256) {
      cases.push_back({&model, Slice::kEp64});
    }
    cases.push_back({&model, Slice::kEp8});
  }
  return cases;
}

// Rows that contexts save: the default, or half of the balanced number, so that the backward replays.
enum class Saved : std::uint32_t { kDefault, kHalf };

inline loopback::WorldSetup suite_setup(const SuiteCase& suite, std::uint32_t num_ranks,
                                        std::uint32_t min_phase_tiles, Saved saved) {
  loopback::WorldSetup setup;
  setup.num_ranks = num_ranks;
  setup.min_phase_tiles = min_phase_tiles;
  setup.layer.max_tokens = suite.tokens();
  setup.layer.hidden = suite.model->hidden;
  setup.layer.intermediate = suite.model->intermediate;
  setup.layer.shared_intermediate = suite.model->intermediate;
  setup.layer.experts = suite.experts(num_ranks);
  setup.layer.topk = suite.model->topk;
  if (saved == Saved::kHalf) {
    setup.options.saved_rows = suite.tokens() * suite.model->topk / 2;
  }
  setup.tokens.assign(num_ranks, static_cast<std::uint32_t>(suite.tokens()));
  return setup;
}

inline std::vector<std::vector<std::int32_t>> uniform_ids(const loopback::WorldSetup& setup,
                                                          std::uint64_t seed) {
  std::vector<std::vector<std::int32_t>> ids(setup.num_ranks);
  std::vector<std::jthread> threads;
  for (std::uint32_t rank = 0; rank < setup.num_ranks; ++rank) {
    threads.emplace_back([&setup, &ids, seed, rank] {
      ids[rank] = loopback::draw_distinct_ids(
          setup.tokens[rank], static_cast<std::uint32_t>(setup.layer.experts),
          static_cast<std::uint32_t>(setup.layer.topk), seed + rank);
    });
  }
  threads.clear();  // joins
  return ids;
}

inline const char* kind_text(CallKind kind) {
  switch (kind) {
    case CallKind::kForward: return "forward";
    case CallKind::kBackward: return "backward";
    case CallKind::kRecompute: return "recompute";
  }
  return "";
}

// Dispatch of x (and dY), combine: where the call has them.
inline std::string ways_text(const loopback::CallSetup& call) {
  std::string text(name(call.x_way));
  if (call.kind == CallKind::kBackward) {
    text += "+" + std::string(name(call.dy_way));
  }
  if (call.kind != CallKind::kRecompute) {
    text += " " + std::string(name(call.out_way));
  }
  return text;
}

}  // namespace mok::gpu_test
