// accumulator.hpp: which element of the 64 x N product an accumulator register of wgmma holds.
#pragma once

#include "core/host_device.hpp"

namespace mok::cuda::mma {

struct AccumulatorPlace {
  int row = 0;
  int column = 0;
  friend constexpr bool operator==(AccumulatorPlace, AccumulatorPlace) = default;
};

// `thread` in [0, 128) of the warpgroup, `index` in [0, N / 2). A warp holds 16 rows; a lane holds
// pairs of columns, in rows l / 4 and l / 4 + 8 of them.
[[nodiscard]] MOK_HD constexpr AccumulatorPlace accumulator_place(int thread, int index) {
  const int warp = thread / 32;
  const int lane = thread % 32;
  return {.row = 16 * warp + lane / 4 + 8 * ((index / 2) % 2),
          .column = 8 * (index / 4) + 2 * (lane % 4) + index % 2};
}

}  // namespace mok::cuda::mma
