// environment.hpp: the one place where MoK reads environment variables.
#pragma once

namespace mok {

// MOK_DEADLINE_SCALE: a number >= 1 that multiplies both deadlines (sanitizers slow everything down).
// Unset, or not a number: 1.
[[nodiscard]] double deadline_scale();

}  // namespace mok
