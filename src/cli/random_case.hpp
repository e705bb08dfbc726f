// random_case.hpp: the cases of `mok verify`: small, and odd in every way that a run can be.
#pragma once

#include <cstdint>

#include "cli/case.hpp"

namespace mok::cli {

// Case `number` (below 2^24) of a seed; the same on every machine. H, I and the shared width are
// distinct, tokens differ between ranks and may be 0, ids hold -1 and duplicates, every option is
// drawn.
[[nodiscard]] Case draw_case(std::uint64_t seed, std::uint32_t number);

}  // namespace mok::cli
