/* c_compiles.c: the C ABI used from C11: one rank, forward, release, recompute, backward. */
#include "mok.h"

#include <stdlib.h>
#include <string.h>

_Static_assert(offsetof(mok_layer_shape, struct_size) == 0, "struct_size comes first");
_Static_assert(offsetof(mok_forward_args, struct_size) == 0, "struct_size comes first");

enum { kTokens = 3, kHidden = 8, kWidth = 16, kExperts = 2, kTopk = 1, kMatrix = kWidth * kHidden };
static const uint16_t kOne = 0x3f80; /* 1.0 in bf16 */

/* All ones: each gate and up value is H, so hidden = H^2 (silu(8) is nearly 8), y = I * hidden. */
static mok_status run(mok_workspace* workspace, mok_context* context, uint16_t* y,
                      float* d_router) {
  uint16_t ones[kExperts * kMatrix];
  uint16_t x[kTokens * kHidden], dx[kTokens * kHidden];
  float d_gate[kExperts * kMatrix], d_up[kExperts * kMatrix], d_down[kExperts * kMatrix];
  const int64_t ids[kTokens] = {0, 1, -1};
  const float weights[kTokens] = {1.0F, 0.5F, 1.0F};
  size_t i;
  for (i = 0; i < sizeof(ones) / sizeof(ones[0]); ++i) ones[i] = kOne;
  for (i = 0; i < sizeof(x) / sizeof(x[0]); ++i) x[i] = kOne;

  mok_weights w = {0};
  w.struct_size = sizeof(w);
  w.gate = (mok_expert_matrix){ones, kMatrix, kHidden, NULL};
  w.up = w.gate;
  w.down = (mok_expert_matrix){ones, kMatrix, kWidth, NULL};
  mok_forward_args forward = {0};
  forward.struct_size = sizeof(forward);
  forward.tokens = kTokens;
  forward.x = x;
  forward.routing.ids64 = ids;
  forward.routing.weights = weights;
  forward.weights = &w;
  forward.y = y;
  forward.context = context;
  mok_status status = mok_forward(workspace, &forward, NULL);
  if (status.code != MOK_OK) return status;

  mok_context_release_saved(context);
  mok_recompute_args recompute = {0};
  recompute.struct_size = sizeof(recompute);
  recompute.context = context;
  recompute.x = x;
  recompute.weights = &w;
  status = mok_recompute(workspace, &recompute, NULL);
  if (status.code != MOK_OK) return status;

  mok_weight_grads grads = {0};
  grads.struct_size = sizeof(grads);
  grads.kind = MOK_GRAD_FP32;
  grads.gate = (mok_grad_matrix){d_gate, kMatrix, kHidden, NULL};
  grads.up = (mok_grad_matrix){d_up, kMatrix, kHidden, NULL};
  grads.down = (mok_grad_matrix){d_down, kMatrix, kWidth, NULL};
  mok_backward_args backward = {0};
  backward.struct_size = sizeof(backward);
  backward.context = context;
  backward.x = x;
  backward.dy = x;
  backward.weights = &w;
  backward.dx = dx;
  backward.d_router = d_router;
  backward.grads = &grads;
  return mok_backward(workspace, &backward, NULL);
}

/* Called by capi_test.cpp; y has kTokens * kHidden elements, d_router kTokens. */
mok_status mok_test_run_from_c(uint16_t* y, float* d_router) {
  mok_world* world = NULL;
  mok_workspace* workspace = NULL;
  mok_context* context = NULL;
  mok_layer_shape shape = {0};
  mok_options options = MOK_OPTIONS_INIT;
  shape.struct_size = sizeof(shape);
  shape.max_tokens = kTokens;
  shape.hidden = kHidden;
  shape.intermediate = kWidth;
  shape.experts = kExperts;
  shape.topk = kTopk;
  options.workers = 1;
  mok_status status = mok_world_create_local(1, &world);
  if (status.code == MOK_OK) status = mok_workspace_create(world, &shape, &options, &workspace);
  mok_world_destroy(world);
  if (status.code == MOK_OK) status = mok_context_create(workspace, &context);
  if (status.code == MOK_OK) status = run(workspace, context, y, d_router);
  mok_workspace_destroy(workspace);
  mok_context_destroy(context);
  return status;
}
