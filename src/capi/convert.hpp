// convert.hpp: between the structs of mok.h and the types of include/mok.
#pragma once

#include <cstdint>

#include "mok.h"
#include "mok/layer.hpp"

namespace mok::capi {

// Each refuses a null pointer, a wrong struct_size and a number that is no value of its enum, names the
// argument, and writes `to` only then when it returns ok.
[[nodiscard]] Status read(const mok_layer_shape* from, LayerShape& to);
[[nodiscard]] Status read(const mok_options* from, Options& to);  // null: defaults
[[nodiscard]] Status read(const mok_weights* from, Weights& to);
[[nodiscard]] Status read(const mok_weight_grads* from, WeightGrads& to);

// Pointers and numbers; contexts are handles, which only capi.cpp knows.
[[nodiscard]] Status read(const mok_forward_args* from, ForwardArgs& to);
[[nodiscard]] Status read(const mok_backward_args* from, BackwardArgs& to);
[[nodiscard]] Status read(const mok_recompute_args* from, RecomputeArgs& to);

// Null is allowed: the caller wants no report.
[[nodiscard]] Status check_report(const mok_call_report* report);
void write(const CallReport& from, mok_call_report* to);

[[nodiscard]] mok_status write(const Status& from);
// Without any allocation, for when there is no memory left.
[[nodiscard]] mok_status write(std::int32_t code, const char* what, const char* why) noexcept;

[[nodiscard]] Status missing(const char* argument);

}  // namespace mok::capi
