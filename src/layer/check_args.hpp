// check_args.hpp: caller mistakes in the arguments of a call, found before any side effect.
#pragma once

#include "layer/impl.hpp"

namespace mok {

[[nodiscard]] Status check_forward(const Plan& plan, int rank, const ForwardArgs& args);
[[nodiscard]] Status check_backward(const Plan& plan, int rank, const BackwardArgs& args);
[[nodiscard]] Status check_recompute(const Plan& plan, int rank, const RecomputeArgs& args);

}  // namespace mok
