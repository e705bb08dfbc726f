// task_enumeration.hpp: the tasks that a call must have, by plain loops over the tables; and the
// tasks that its queues hand out.
#pragma once

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <vector>

#include "program/stamp.hpp"
#include "support/world_builder.hpp"

namespace mok::testing {

inline bool task_before(const Task& a, const Task& b) {
  return std::tie(a.kind, a.index, a.col, a.phase) < std::tie(b.kind, b.index, b.col, b.phase);
}

// Adds kind(index, 0 .. cols-1, phase).
inline void add_tiles(std::vector<Task>& to, TaskKind kind, std::uint32_t index, std::uint32_t cols,
                      std::uint32_t phase) {
  for (std::uint32_t col = 0; col < cols; ++col) {
    to.push_back(Task{kind, index, col, phase});
  }
}

inline std::uint32_t tiles_of(std::uint32_t width, std::uint32_t tile) {
  return (width + tile - 1) / tile;
}

inline std::uint32_t weight_tiles_of(const View& v, std::uint32_t width) {
  const std::uint32_t down =
      tiles_of(v.hidden, v.geo.wgrad_rows) * tiles_of(width, v.geo.tile_cols);
  const std::uint32_t gate =
      tiles_of(width, v.geo.wgrad_rows) * tiles_of(v.hidden, v.geo.tile_cols);
  return width == 0 ? 0 : down + gate + gate;
}

inline void expect_shared(const View& v, std::vector<Task>& to) {
  const std::uint32_t width = v.shared_intermediate;
  if (width == 0) {
    return;
  }
  const bool gate = v.output_gate == Flagged::kYes && v.kind != CallKind::kRecompute;
  const std::uint32_t out = tiles_of(v.hidden, v.geo.tile_cols);
  for (std::uint32_t b = 0; b < tiles_of(v.tokens, v.geo.block_rows); ++b) {
    if (gate) {
      add_tiles(to, TaskKind::kSharedLogit, b, 1, 0);
    }
    if (v.kind != CallKind::kBackward || v.shared_replay == Flagged::kYes) {
      add_tiles(to, TaskKind::kSharedGateUp, b, tiles_of(width, v.geo.tile_cols / 2), 0);
    }
    if (v.kind == CallKind::kForward) {
      add_tiles(to, TaskKind::kSharedDown, b, out, 0);
    }
    if (v.kind == CallKind::kBackward) {
      add_tiles(to, TaskKind::kSharedHiddenGrad, b, tiles_of(width, v.geo.tile_cols), 0);
      add_tiles(to, TaskKind::kSharedInputGrad, b, out, 0);
    }
  }
  if (v.kind == CallKind::kBackward) {
    add_tiles(to, TaskKind::kSharedWeightGrad, 0, weight_tiles_of(v, width), 0);
    if (gate) {
      add_tiles(to, TaskKind::kSharedLogitGrad, 0, out, 0);
    }
  }
}

inline void expect_routed(const View& v, std::vector<Task>& to) {
  const RouteView& r = v.routes;
  const bool backward = v.kind == CallKind::kBackward;
  const std::uint32_t out = tiles_of(v.hidden, v.geo.tile_cols);
  for (std::uint32_t b = 0; b < r.num_blocks; ++b) {
    const std::uint32_t phase = r.blocks[b].phase;
    const std::uint32_t stripes = r.blocks[b].padded_rows / v.geo.stripe_rows;
    const bool saved = b < r.saved_blocks;
    const bool moves_x = v.kind == CallKind::kForward || saved == (v.kind == CallKind::kRecompute);
    if (moves_x) {
      add_tiles(to, v.x_way == Dispatch::kPull ? TaskKind::kPullX : TaskKind::kReceiveX, b, stripes,
                phase);
      add_tiles(to, TaskKind::kGateUp, b, tiles_of(v.intermediate, v.geo.tile_cols / 2), phase);
    }
    if (backward) {
      add_tiles(to, v.dy_way == Dispatch::kPull ? TaskKind::kPullDy : TaskKind::kReceiveDy, b,
                stripes, phase);
      add_tiles(to, TaskKind::kHiddenGrad, b, tiles_of(v.intermediate, v.geo.tile_cols), phase);
      add_tiles(to, TaskKind::kInputGrad, b, out, phase);
    }
    if (v.kind == CallKind::kForward) {
      add_tiles(to, TaskKind::kDown, b, out, phase);
    }
    if (v.kind != CallKind::kRecompute && v.out_way == Combine::kPush) {
      add_tiles(to, TaskKind::kCombinePush, b, stripes, phase);
    }
  }
  for (std::uint32_t i = 0; backward && i < r.num_parts; ++i) {
    add_tiles(to, TaskKind::kWeightGrad, i, weight_tiles_of(v, v.intermediate),
              r.blocks[r.parts[i].first_block].phase);
  }
  for (std::uint32_t i = 0; backward && v.zero_empty == Flagged::kYes && i < r.num_empty; ++i) {
    add_tiles(to, TaskKind::kZeroGrad, i, weight_tiles_of(v, v.intermediate), 0);
  }
  for (std::uint32_t s = 0;
       v.kind != CallKind::kRecompute && s < tiles_of(v.tokens, v.geo.token_stripe); ++s) {
    add_tiles(to, TaskKind::kReduce, s, 1, 0);
  }
}

// Stripes of this rank's rows in other ranks' phases; `views` are all ranks'.
inline void expect_exchange(const View& v, const std::vector<View>& views, std::vector<Task>& to) {
  const bool pull_out = v.kind != CallKind::kRecompute && v.out_way == Combine::kPull;
  const bool push_dy = v.kind == CallKind::kBackward && v.dy_way == Dispatch::kPush;
  for (std::uint32_t i = 0; i < v.routes.num_records; ++i) {
    const ExchangeRecord& record = v.routes.records[i];
    const RouteView& peer = views[record.peer].routes;
    const std::uint32_t first = peer.phases[record.phase].first_block;
    const std::uint32_t last = peer.phases[record.phase + 1].first_block;
    const std::uint32_t all = std::max(1U, tiles_of(record.rows, v.geo.stripe_rows));
    std::uint32_t window = all;
    if (v.kind == CallKind::kBackward) {
      window = std::max(last > peer.saved_blocks ? 1U : 0U,
                        tiles_of(record.rows - record.saved_rows, v.geo.stripe_rows));
    } else if (v.kind == CallKind::kRecompute) {
      window = std::max(first < peer.saved_blocks ? 1U : 0U,
                        tiles_of(record.saved_rows, v.geo.stripe_rows));
    }
    if (v.x_way == Dispatch::kPush) {
      add_tiles(to, TaskKind::kPushX, i, window, record.phase);
    }
    if (push_dy) {
      add_tiles(to, TaskKind::kPushDy, i, all, record.phase);
    }
    if (pull_out) {
      add_tiles(to, TaskKind::kCombinePull, i, all, record.phase);
    }
  }
}

inline std::vector<Task> expected_tasks(const std::vector<View>& views, std::uint32_t rank) {
  std::vector<Task> tasks;
  expect_shared(views[rank], tasks);
  expect_routed(views[rank], tasks);
  expect_exchange(views[rank], views, tasks);
  std::sort(tasks.begin(), tasks.end(), task_before);
  return tasks;
}

struct QueueTasks {
  std::vector<Task> compute, comm;
};
inline QueueTasks queue_tasks(const View& v) {
  QueueTasks tasks;
  const ComputeQueue<Geometry> compute(v);
  for (std::uint32_t i = 0; i < compute.size(); ++i) {
    tasks.compute.push_back(compute.task(i));
  }
  const CommQueue<Geometry> comm(v);
  for (std::uint32_t i = 0; i < comm.size(); ++i) {
    tasks.comm.push_back(comm.task(i));
  }
  return tasks;
}

}  // namespace mok::testing
