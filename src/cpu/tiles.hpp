// tiles.hpp: bodies of the compute queue.
#pragma once

#include "cpu/call_data.hpp"
#include "program/task.hpp"

namespace mok::cpu {

// Forward, recompute and replay (gemm_tiles.cpp).
void gate_up_tile(const CallData& d, const Task& task, Worker& worker);
void down_tile(const CallData& d, const Task& task, Worker& worker);
void shared_gate_up_tile(const CallData& d, const Task& task, Worker& worker);
void shared_down_tile(const CallData& d, const Task& task, Worker& worker);

// Backward (grad_tiles.cpp).
void hidden_grad_tile(const CallData& d, const Task& task, Worker& worker);
void input_grad_tile(const CallData& d, const Task& task, Worker& worker);
void shared_hidden_grad_tile(const CallData& d, const Task& task, Worker& worker);
void shared_input_grad_tile(const CallData& d, const Task& task, Worker& worker);

// Weight gradients (weight_grad.cpp).
void weight_grad_tile(const CallData& d, const Task& task, Worker& worker);
void shared_weight_grad_tile(const CallData& d, const Task& task, Worker& worker);
void zero_grad_tile(const CallData& d, const Task& task);

// Per-token work (reduce.cpp).
void shared_logit(const CallData& d, const Task& task);
void shared_logit_grad(const CallData& d, const Task& task, const Worker& worker);
void reduce_stripe(const CallData& d, const Task& task, Worker& worker);

// Sum of v[0 .. count) by a binary tree over `run` lanes; missing lanes count as +0. Longer sums take
// runs in order: the fixed order of dw and of the output gate's logit. run: a power of two.
inline constexpr std::uint32_t kMaxRun = 64;
float tree_run(const float* v, std::uint32_t count, std::uint32_t run);

// Token rows of a shared block.
struct TokenRows {
  std::uint32_t first;
  std::uint32_t count;
};
TokenRows token_rows(const CallData& d, std::uint32_t block);

}  // namespace mok::cpu
