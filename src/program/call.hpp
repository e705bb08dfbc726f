// call.hpp: one call of one rank as the program sees it: sizes, directions, tables, windows.
#pragma once

#include <cstdint>

#include "core/geometry.hpp"
#include "mok/shape.hpp"
#include "route/tables.hpp"
#include "sync/word_layout.hpp"
#include "sync/words.hpp"

namespace mok {

enum class CallKind : std::uint32_t { kForward = 1, kBackward = 2, kRecompute = 3 };
enum class Flagged : std::uint32_t { kNo = 0, kYes = 1 };

template <class Geo>
struct CallView {
  [[no_unique_address]] Geo geo;
  CallKind kind = CallKind::kForward;
  Epoch epoch = 0;
  std::uint32_t start_word = 0;  // payload of the start flags: kind and context
  std::uint32_t tokens = 0;      // this rank's T in this call
  std::uint32_t hidden = 0;
  std::uint32_t intermediate = 0;
  std::uint32_t shared_intermediate = 0;
  Flagged output_gate = Flagged::kNo;
  Flagged shared_replay = Flagged::kNo;  // backward: the context has no shared gate and up
  Flagged zero_empty = Flagged::kNo;     // backward: experts without rows get exact zeros
  Dispatch x_way = Dispatch::kPull;
  Dispatch dy_way = Dispatch::kPull;
  Combine out_way = Combine::kScatter;  // y in the forward, dX in the backward
  RouteView routes;
  FlagLayout flags;
  CounterLayout counters;
};

// Column tiles. A gate-up tile holds tile_cols/2 columns of I, gate and up interleaved.
template <class Geo>
struct TileCounts {
  MOK_HD_MEMBER static std::uint32_t gate_up(const Geo& geo, std::uint32_t width) {
    return ceil_div(width, std::uint32_t{geo.tile_cols} / 2);
  }
  MOK_HD_MEMBER static std::uint32_t plain(const Geo& geo, std::uint32_t width) {
    return ceil_div(width, std::uint32_t{geo.tile_cols});
  }
  // One weight gradient [rows, cols].
  MOK_HD_MEMBER static std::uint32_t weight(const Geo& geo, std::uint32_t rows,
                                            std::uint32_t cols) {
    return ceil_div(rows, std::uint32_t{geo.wgrad_rows}) * plain(geo, cols);
  }
  // down [H, width], gate [width, H], up [width, H], in this order.
  MOK_HD_MEMBER static std::uint32_t expert_weights(const Geo& geo, std::uint32_t hidden,
                                                    std::uint32_t width) {
    return width == 0 ? 0 : weight(geo, hidden, width) + 2 * weight(geo, width, hidden);
  }
};

enum class WeightKind : std::uint32_t { kDown, kGate, kUp };
struct WeightTile {
  WeightKind kind;
  std::uint32_t row0;
  std::uint32_t col0;
};
template <class Geo>
MOK_HD WeightTile weight_tile(const Geo& geo, std::uint32_t hidden, std::uint32_t width,
                              std::uint32_t index) {
  const std::uint32_t down = TileCounts<Geo>::weight(geo, hidden, width);
  const std::uint32_t each = TileCounts<Geo>::weight(geo, width, hidden);
  const WeightKind kind = index < down          ? WeightKind::kDown
                          : index < down + each ? WeightKind::kGate
                                                : WeightKind::kUp;
  std::uint32_t rest = index;
  if (kind != WeightKind::kDown) {
    rest -= kind == WeightKind::kGate ? down : down + each;
  }
  const std::uint32_t cols =
      TileCounts<Geo>::plain(geo, kind == WeightKind::kDown ? width : hidden);
  return WeightTile{kind, rest / cols * geo.wgrad_rows, rest % cols * geo.tile_cols};
}

template <class Geo>
MOK_HD std::uint32_t shared_blocks(const CallView<Geo>& v) {
  return v.shared_intermediate == 0 ? 0 : ceil_div(v.tokens, std::uint32_t{v.geo.block_rows});
}

// Blocks whose x rows move and whose gate-up runs in this call: a window of the block list.
struct BlockWindow {
  std::uint32_t first;
  std::uint32_t last;
};
MOK_HD BlockWindow block_window(CallKind kind, const RouteView& routes) {
  switch (kind) {
    case CallKind::kForward: return {0, routes.num_blocks};
    case CallKind::kBackward: return {routes.saved_blocks, routes.num_blocks};
    case CallKind::kRecompute: return {0, routes.saved_blocks};
  }
  return {0, 0};
}
MOK_HD Window record_window(CallKind kind) {
  switch (kind) {
    case CallKind::kForward: return Window::kAll;
    case CallKind::kBackward: return Window::kReplay;
    case CallKind::kRecompute: return Window::kSaved;
  }
  return Window::kAll;
}
MOK_HD std::uint32_t clamp_to(std::uint32_t value, std::uint32_t low, std::uint32_t high) {
  return value < low ? low : (value > high ? high : value);
}

// First block of a phase; phases at or beyond the end give the number of blocks.
MOK_HD std::uint32_t first_block(const RouteView& routes, std::uint32_t phase) {
  return routes.phases[phase < routes.num_phases ? phase : routes.num_phases].first_block;
}
MOK_HD std::uint32_t first_part(const RouteView& routes, std::uint32_t phase) {
  return routes.phases[phase < routes.num_phases ? phase : routes.num_phases].first_part;
}
MOK_HD std::uint32_t first_row(const RouteView& routes, std::uint32_t phase) {
  return routes.phases[phase < routes.num_phases ? phase : routes.num_phases].row0;
}
MOK_HD std::uint32_t blocks_of(const RouteView& routes, std::uint32_t phase) {
  return first_block(routes, phase + 1) - first_block(routes, phase);
}
// Blocks of a phase that lie in the call's window.
template <class Geo>
MOK_HD std::uint32_t window_blocks(const CallView<Geo>& v, std::uint32_t phase) {
  const BlockWindow w = block_window(v.kind, v.routes);
  return clamp_to(first_block(v.routes, phase + 1), w.first, w.last) -
         clamp_to(first_block(v.routes, phase), w.first, w.last);
}

}  // namespace mok
