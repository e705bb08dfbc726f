// tensors.hpp: how callers hand over their tensors. Weights and gradients stay in the caller's layout.
#pragma once

#include <cstdint>

#include "mok/bf16.hpp"
#include "mok/shape.hpp"

namespace mok {

// One matrix per local expert, last index contiguous. Either base + expert * expert_stride, or one
// pointer per expert in `table`. Strides in elements. Two halves of one [E, 2I, H] tensor are two of
// these with the same strides and different bases.
struct ExpertMatrix {
  const Bf16* base = nullptr;
  std::int64_t expert_stride = 0;
  std::int64_t row_stride = 0;
  const Bf16* const* table = nullptr;
};

// The same for gradients: bf16 or f32 elements as the call's Grad says.
struct GradMatrix {
  void* base = nullptr;
  std::int64_t expert_stride = 0;
  std::int64_t row_stride = 0;
  void* const* table = nullptr;
};

// gate, up: [local E][I, H]; down: [local E][H, I]. The shared expert: [S, H], [S, H], [H, S], one
// "expert" each; left empty when the layer has none. shared_output_gate: [H] or nullptr.
struct Weights {
  ExpertMatrix gate, up, down;
  ExpertMatrix shared_gate, shared_up, shared_down;
  const Bf16* shared_output_gate = nullptr;
};

// Where weight gradients go; shapes as Weights. d_shared_* are sums over this rank's tokens only.
// Grad::kBf16 and kFp32 overwrite every element (exact zeros for experts without rows), kMainGrad adds
// once per element into f32 and leaves experts without rows untouched. The shared expert and its
// output gate ([H]) have a kind of their own, since their gradients still have to be summed over ranks.
struct WeightGrads {
  Grad kind = Grad::kBf16;
  Grad shared_kind = Grad::kBf16;
  GradMatrix gate, up, down;
  GradMatrix shared_gate, shared_up, shared_down;
  void* shared_output_gate = nullptr;
};

// Router's choice: ids[tokens, k], int32 or int64, -1 = no route, the same expert may come twice; weights f32 [tokens, k].
struct Routing {
  const std::int32_t* ids = nullptr;
  const std::int64_t* ids64 = nullptr;  // used when ids is nullptr
  const float* weights = nullptr;
};

}  // namespace mok
