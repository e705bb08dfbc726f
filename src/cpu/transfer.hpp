// transfer.hpp: bodies of the comm queue: rows pulled, pushed, received, combined.
#pragma once

#include "cpu/call_data.hpp"
#include "program/task.hpp"

namespace mok::cpu {

void pull_x(const CallData& d, const Task& task, Worker& worker);
void pull_dy(const CallData& d, const Task& task, Worker& worker);
void push_x(const CallData& d, const Task& task, Worker& worker);
void push_dy(const CallData& d, const Task& task, Worker& worker);
void receive_x(const CallData& d, const Task& task);
void receive_dy(const CallData& d, const Task& task);
void combine_push(const CallData& d, const Task& task, Worker& worker);
void combine_pull(const CallData& d, const Task& task, Worker& worker);

// Columns [col0, col0 + count) of a row of y (or dX) for its owner: to the owner's landing memory when
// scattered, else into the out ring. Used by the epilogues of the compute queue.
void store_out_row(const CallData& d, std::uint32_t block, std::uint32_t row, std::uint32_t col0,
                   const Bf16* values, std::uint32_t count, Worker& worker);
// dL/dw of a row, the same way.
void store_dw(const CallData& d, std::uint32_t block, std::uint32_t row, float dw);

}  // namespace mok::cpu
