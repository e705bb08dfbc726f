// memory_model.hpp: which task writes and reads which place of which buffer.
//
// A place is one ring row (times a column tile where tiles share it). Its contents are versions;
// those of a ring are numbered by phase, those of memory that is written once are all 0. Modelled:
// - staged inputs: opening -> pull
// - x ring: pull or push + receive -> gate-up, weight gradient (replayed blocks), receive
// - dy ring: the same -> hidden gradient, weight gradient
// - route ring (3 * cells cells): x (forward) or dY (backward) dispatch -> down, hidden gradient
//   (weights), input gradient, combine push
// - gate and up rings: gate-up -> hidden gradient, which writes d_gate, d_up in place -> input and
//   weight gradients
// - hidden ring: gate-up -> down (forward); hidden gradient (w*h) -> weight gradient
// - partial sums of dw: hidden gradient -> input gradient
// - out ring: down or input gradient -> combine push, combine pull
// - landing rows: scatter, combine push or pull -> reduce
// - spill: weight gradient -> weight gradient of the expert's next part
// - shared expert: logit, hidden, d_gate and d_up, partial sums, out, dz -> their readers
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "support/contributions.hpp"
#include "support/happens_before.hpp"
#include "support/place_history.hpp"

namespace mok::testing {

class MemoryModel {
 public:
  MemoryModel(const CallWorld& world, const Contributions& facts, const HappensBefore& order)
      : world_(world), places_(order) {
    for (std::uint32_t rank = 0; rank < world.num_ranks(); ++rank) {
      write(rank, Buffer::kStaged, 0, 0, 0, order.opening_node(rank));
    }
    for (std::size_t i = 0; i < facts.tasks.size(); ++i) {
      node_ = order.task_node(i);
      v_ = &world.views[facts.tasks[i].rank];
      access(facts.tasks[i].task);
    }
  }

  [[nodiscard]] const PlaceHistory& places() const { return places_; }

 private:
  void write(std::uint32_t rank, Buffer buffer, std::uint64_t row, std::uint32_t col,
             std::uint64_t version, std::size_t node) {
    places_.write(rank, buffer, row, col, version, node);
  }
  void write(Buffer buffer, std::uint64_t row, std::uint32_t col, std::uint64_t version) {
    write(v_->routes.rank, buffer, row, col, version, node_);
  }
  void read(std::uint32_t rank, Buffer buffer, std::uint64_t row, std::uint32_t col,
            std::uint64_t version) {
    places_.read(rank, buffer, row, col, version, node_);
  }
  void read(Buffer buffer, std::uint64_t row, std::uint32_t col, std::uint64_t version) {
    read(v_->routes.rank, buffer, row, col, version);
  }

  [[nodiscard]] std::uint32_t gate_up_cols(std::uint32_t width) const {
    return tiles_of(width, v_->geo.tile_cols / 2);
  }
  [[nodiscard]] std::uint32_t out_cols() const { return tiles_of(v_->hidden, v_->geo.tile_cols); }
  [[nodiscard]] bool backward() const { return v_->kind == CallKind::kBackward; }
  [[nodiscard]] bool scattered() const { return v_->out_way == Combine::kScatter; }
  [[nodiscard]] static std::uint64_t ring(const RouteView& r, std::uint32_t cells,
                                          std::uint32_t phase, std::uint32_t row) {
    return ring_row(r, cells, phase, r.phases[phase].row0, row);
  }
  // f(ring row) for padded rows [first, last) of a block.
  template <class F>
  void rows(std::uint32_t block, std::uint32_t first, std::uint32_t last, F f) const {
    const RouteView& r = v_->routes;
    const BlockRecord& b = r.blocks[block];
    for (std::uint32_t i = first; i < std::min(last, std::uint32_t{b.padded_rows}); ++i) {
      f(ring(r, v_->geo.cells, b.phase, b.row0 + i), i);
    }
  }
  template <class F>
  void all_rows(std::uint32_t block, F f) const {
    rows(block, 0, ~0U, f);
  }
  [[nodiscard]] std::uint64_t route_row(std::uint32_t block, std::uint32_t i) const {
    const BlockRecord& b = v_->routes.blocks[block];
    return ring(v_->routes, 3 * v_->geo.cells, b.phase, b.row0 + i);
  }
  // Owner and slot of real row i of a block.
  [[nodiscard]] std::pair<std::uint32_t, std::uint32_t> owner_slot(std::uint32_t block,
                                                                   std::uint32_t i) const {
    const RouteView& r = v_->routes;
    const BlockRecord& b = r.blocks[block];
    const std::uint32_t index = b.row0 - r.expert_row0[b.expert] + i;
    const std::uint32_t s = source_of(r, b.expert, index, b.first_source);
    const std::uint32_t place = r.slot_offset[std::size_t{s} * r.local_experts + b.expert] + index -
                                r.source_prefix[std::size_t{b.expert} * (r.num_ranks + 1) + s];
    return {s, world_.views[s].routes.sorted_slots[place]};
  }

  void access(const Task& t) {
    switch (t.kind) {
      case TaskKind::kPullX: pull(t, Buffer::kX, !backward()); break;
      case TaskKind::kPullDy: pull(t, Buffer::kDy, true); break;
      case TaskKind::kPushX: push(t, Buffer::kX, !backward()); break;
      case TaskKind::kPushDy: push(t, Buffer::kDy, true); break;
      case TaskKind::kReceiveX: receive(t, Buffer::kX, !backward()); break;
      case TaskKind::kReceiveDy: receive(t, Buffer::kDy, true); break;
      case TaskKind::kGateUp: gate_up(t); break;
      case TaskKind::kDown: down(t); break;
      case TaskKind::kHiddenGrad: hidden_grad(t); break;
      case TaskKind::kInputGrad: input_grad(t); break;
      case TaskKind::kWeightGrad: weight_grad(t); break;
      case TaskKind::kCombinePush: combine_push(t); break;
      case TaskKind::kCombinePull: combine_pull(t); break;
      case TaskKind::kReduce: reduce(t); break;
      default: shared(t); break;
    }
  }

  void pull(const Task& t, Buffer buffer, bool routes) {
    const std::uint32_t first = t.col * v_->geo.stripe_rows;
    rows(t.index, first, first + v_->geo.stripe_rows, [&](std::uint64_t row, std::uint32_t i) {
      if (i < v_->routes.blocks[t.index].rows) {
        read(owner_slot(t.index, i).first, Buffer::kStaged, 0, 0, 0);
      }
      write(buffer, row, 0, t.phase);
      if (routes) {
        write(Buffer::kRoute, route_row(t.index, i), 0, t.phase);
      }
    });
  }
  void push(const Task& t, Buffer buffer, bool routes) {
    const ExchangeRecord& record = v_->routes.records[t.index];
    const RouteView& peer = world_.views[record.peer].routes;
    const Window window = buffer == Buffer::kX ? record_window(v_->kind) : Window::kAll;
    const std::uint32_t begin = window == Window::kReplay ? record.saved_rows : 0;
    const std::uint32_t end = window == Window::kSaved ? record.saved_rows : record.rows;
    const std::uint32_t first = begin + t.col * v_->geo.stripe_rows;
    for_each_run(v_->routes, record, first, std::min(end, first + v_->geo.stripe_rows),
                 [&](const ExchangeRun& run) {
                   for (std::uint32_t row = run.peer_row; row < run.peer_row + run.count; ++row) {
                     write(record.peer, buffer, ring(peer, v_->geo.cells, t.phase, row), 0, t.phase,
                           node_);
                     if (routes) {
                       write(record.peer, Buffer::kRoute,
                             ring(peer, 3 * v_->geo.cells, t.phase, row), 0, t.phase, node_);
                     }
                   }
                 });
  }
  // Pad rows; and real rows are read, to be kept by a context.
  void receive(const Task& t, Buffer buffer, bool routes) {
    const std::uint32_t first = t.col * v_->geo.stripe_rows;
    rows(t.index, first, first + v_->geo.stripe_rows, [&](std::uint64_t row, std::uint32_t i) {
      if (i < v_->routes.blocks[t.index].rows) {
        read(buffer, row, 0, t.phase);
        return;
      }
      write(buffer, row, 0, t.phase);
      if (routes) {
        write(Buffer::kRoute, route_row(t.index, i), 0, t.phase);
      }
    });
  }
  void gate_up(const Task& t) {
    all_rows(t.index, [&](std::uint64_t row, std::uint32_t) {
      read(Buffer::kX, row, 0, t.phase);
      if (v_->kind != CallKind::kRecompute) {  // that writes to the context only
        write(Buffer::kHidden, row, t.col, 2 * t.phase);
        write(Buffer::kGateUp, row, t.col, 2 * t.phase);
      }
    });
  }
  // Row i of a block goes to its owner straight from the epilogue.
  void scatter(const Task& t) {
    for (std::uint32_t i = 0; i < v_->routes.blocks[t.index].rows; ++i) {
      const auto [owner, slot] = owner_slot(t.index, i);
      read(Buffer::kRoute, route_row(t.index, i), 0, t.phase);
      write(owner, Buffer::kLanding, slot, t.col, 0, node_);
    }
  }
  void write_out(const Task& t) {
    if (scattered()) {
      scatter(t);
      return;
    }
    all_rows(t.index,
             [&](std::uint64_t row, std::uint32_t) { write(Buffer::kOut, row, t.col, t.phase); });
  }
  void down(const Task& t) {
    all_rows(t.index, [&](std::uint64_t row, std::uint32_t) {
      for (std::uint32_t col = 0; col < gate_up_cols(v_->intermediate); ++col) {
        read(Buffer::kHidden, row, col, 2 * t.phase);
      }
    });
    write_out(t);
  }
  void hidden_grad(const Task& t) {
    const bool replayed = t.index >= v_->routes.saved_blocks;
    all_rows(t.index, [&](std::uint64_t row, std::uint32_t i) {
      read(Buffer::kDy, row, 0, t.phase);
      read(Buffer::kRoute, route_row(t.index, i), 0, t.phase);  // its weight
      write(Buffer::kPartials, row, t.col, t.phase);
      for (std::uint32_t col = 2 * t.col;
           col < std::min(2 * t.col + 2, gate_up_cols(v_->intermediate)); ++col) {
        if (replayed) {
          read(Buffer::kGateUp, row, col, 2 * t.phase);
        }
        write(Buffer::kGateUp, row, col, 2 * t.phase + 1);
        write(Buffer::kHidden, row, col, 2 * t.phase + 1);
      }
    });
  }
  void input_grad(const Task& t) {
    all_rows(t.index, [&](std::uint64_t row, std::uint32_t) {
      for (std::uint32_t col = 0; col < gate_up_cols(v_->intermediate); ++col) {
        read(Buffer::kGateUp, row, col, 2 * t.phase + 1);
      }
      for (std::uint32_t col = 0; t.col == 0 && col < tiles_of(v_->intermediate, v_->geo.tile_cols);
           ++col) {
        read(Buffer::kPartials, row, col, t.phase);
      }
    });
    write_out(t);
  }
  void weight_grad(const Task& t) {
    const RouteView& r = v_->routes;
    const PartRecord& part = r.parts[t.index];
    const WeightTile tile = weight_tile(v_->geo, v_->hidden, v_->intermediate, t.col);
    const bool is_down = tile.kind == WeightKind::kDown;
    const std::uint32_t begin = is_down ? tile.col0 : tile.row0;  // columns of I
    const std::uint32_t end =
        std::min(v_->intermediate, begin + (is_down ? v_->geo.tile_cols : v_->geo.wgrad_rows));
    const std::uint32_t half = v_->geo.tile_cols / 2;
    for (std::uint32_t b = part.first_block; b < part.first_block + part.num_blocks; ++b) {
      all_rows(b, [&](std::uint64_t row, std::uint32_t) {
        if (is_down) {
          read(Buffer::kDy, row, 0, t.phase);
        } else if (b >= r.saved_blocks) {
          read(Buffer::kX, row, 0, t.phase);
        }
        for (std::uint32_t col = begin / half; col <= (end - 1) / half; ++col) {
          read(is_down ? Buffer::kHidden : Buffer::kGateUp, row, col, 2 * t.phase + 1);
        }
      });
    }
    if (part.reload != 0) {
      read(Buffer::kSpill, t.col, 0, t.index - 1);
    }
    if (part.spill != 0) {
      write(Buffer::kSpill, t.col, 0, t.index);
    }
  }
  void combine_push(const Task& t) {
    const std::uint32_t first = t.col * v_->geo.stripe_rows;
    rows(t.index, first, first + v_->geo.stripe_rows, [&](std::uint64_t row, std::uint32_t i) {
      read(Buffer::kRoute, route_row(t.index, i), 0, t.phase);
      if (i >= v_->routes.blocks[t.index].rows) {
        return;
      }
      const auto [owner, slot] = owner_slot(t.index, i);
      for (std::uint32_t col = 0; col < out_cols(); ++col) {
        read(Buffer::kOut, row, col, t.phase);
        write(owner, Buffer::kLanding, slot, col, 0, node_);
      }
    });
  }
  void combine_pull(const Task& t) {
    const RouteView& r = v_->routes;
    const ExchangeRecord& record = r.records[t.index];
    const RouteView& peer = world_.views[record.peer].routes;
    const std::uint32_t first = t.col * v_->geo.stripe_rows;
    for_each_run(r, record, first, std::min(record.rows, first + v_->geo.stripe_rows),
                 [&](const ExchangeRun& run) {
                   for (std::uint32_t i = 0; i < run.count; ++i) {
                     const std::uint32_t slot =
                         r.sorted_slots[r.own_offset[run.expert] + run.index + i];
                     for (std::uint32_t col = 0; col < out_cols(); ++col) {
                       read(record.peer, Buffer::kOut,
                            ring(peer, v_->geo.cells, t.phase, run.peer_row + i), col, t.phase);
                       write(Buffer::kLanding, slot, col, 0);
                     }
                   }
                 });
  }
  void reduce(const Task& t) {
    const std::uint32_t k = v_->routes.topk;
    const std::uint32_t last = std::min(v_->tokens, (t.index + 1) * v_->geo.token_stripe);
    for (std::uint32_t token = t.index * v_->geo.token_stripe; token < last; ++token) {
      for (std::uint32_t slot = token * k; slot < (token + 1) * k; ++slot) {
        for (std::uint32_t col = 0;
             world_.batch.ids[v_->routes.rank][slot] >= 0 && col < out_cols(); ++col) {
          read(Buffer::kLanding, slot, col, 0);
        }
      }
      if (v_->shared_intermediate == 0) {
        continue;
      }
      const std::uint32_t block = token / v_->geo.block_rows;
      for (std::uint32_t col = 0; col < out_cols(); ++col) {
        read(Buffer::kSharedOut, block, col, 0);
      }
      if (v_->output_gate == Flagged::kYes) {
        read(backward() ? Buffer::kSharedDz : Buffer::kSharedLogit, block, 0, 0);
      }
    }
  }
  void shared(const Task& t) {
    const std::uint32_t cols = gate_up_cols(v_->shared_intermediate);
    const std::uint32_t blocks = shared_blocks(*v_);
    const bool gate = v_->output_gate == Flagged::kYes;
    const auto read_hidden = [&](std::uint32_t block, std::uint64_t version) {
      for (std::uint32_t col = 0; col < cols; ++col) {
        read(Buffer::kSharedHidden, block, col, version);
      }
    };
    switch (t.kind) {
      case TaskKind::kSharedLogit: write(Buffer::kSharedLogit, t.index, 0, 0); break;
      case TaskKind::kSharedGateUp:
        if (v_->kind != CallKind::kRecompute) {
          write(Buffer::kSharedHidden, t.index, t.col, 0);
        }
        break;
      case TaskKind::kSharedDown:
        read_hidden(t.index, 0);
        write(Buffer::kSharedOut, t.index, t.col, 0);
        break;
      case TaskKind::kSharedHiddenGrad:
        if (gate) {
          read(Buffer::kSharedLogit, t.index, 0, 0);
        }
        write(Buffer::kSharedPartials, t.index, t.col, 0);
        for (std::uint32_t col = 2 * t.col; col < std::min(2 * t.col + 2, cols); ++col) {
          if (v_->shared_replay == Flagged::kYes) {
            read(Buffer::kSharedHidden, t.index, col, 0);
          }
          write(Buffer::kSharedHidden, t.index, col, 1);
        }
        break;
      case TaskKind::kSharedInputGrad:
        read_hidden(t.index, 1);
        write(Buffer::kSharedOut, t.index, t.col, 0);
        if (t.col == 0) {
          for (std::uint32_t c = 0; c < tiles_of(v_->shared_intermediate, v_->geo.tile_cols); ++c) {
            read(Buffer::kSharedPartials, t.index, c, 0);
          }
          write(Buffer::kSharedDz, t.index, 0, 0);
        }
        break;
      case TaskKind::kSharedWeightGrad:
        for (std::uint32_t block = 0; block < blocks; ++block) {
          read_hidden(block, 1);
        }
        break;
      case TaskKind::kSharedLogitGrad:
        for (std::uint32_t block = 0; block < blocks; ++block) {
          read(Buffer::kSharedDz, block, 0, 0);
        }
        break;
      default: break;
    }
  }

  const CallWorld& world_;
  const View* v_ = nullptr;
  std::size_t node_ = 0;
  PlaceHistory places_;
};

}  // namespace mok::testing
