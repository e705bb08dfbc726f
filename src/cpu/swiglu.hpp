// swiglu.hpp: SwiGLU with optional clamp, forward and backward, in fp32 from bf16-rounded gate and up.
//
// h = silu(gc) * uc with gc = min(gate, L), uc = clamp(up, -L, L). At the limit itself the gradient
// passes; beyond it, it is zero. NaN passes through both ways.
#pragma once

#include <cmath>

namespace mok::cpu {

inline float sigmoid(float z) {
  return 1.0F / (1.0F + std::exp(-z));
}

inline float clamp_gate(float gate, float limit) {
  return gate > limit ? limit : gate;
}
inline float clamp_up(float up, float limit) {
  return up > limit ? limit : (up < -limit ? -limit : up);
}

inline float swiglu(float gate, float up, float limit) {
  const float gc = clamp_gate(gate, limit);
  return gc * sigmoid(gc) * clamp_up(up, limit);
}

struct SwigluGrad {
  float hidden;  // h, not rounded
  float gate;    // dL/dgate for dL/dh = dh
  float up;
};
inline SwigluGrad swiglu_grad(float gate, float up, float limit, float dh) {
  const float gc = clamp_gate(gate, limit);
  const float uc = clamp_up(up, limit);
  const float s = sigmoid(gc);
  const float silu = gc * s;
  const float slope = s * (1.0F + gc * (1.0F - s));
  return SwigluGrad{silu * uc, gate > limit ? 0.0F : dh * uc * slope,
                    up > limit || up < -limit ? 0.0F : dh * silu};
}

}  // namespace mok::cpu
