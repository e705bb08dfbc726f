// engine_gemms.hpp: the gemm function of each engine; engine.cpp decides which of them may run.
#pragma once

#include "cpu/engine/engine.hpp"

namespace mok::cpu {

void gemm_scalar(const GemmCall& call, Scratch& scratch);

// x86-64 only; the caller has checked that the CPU has the instructions.
void gemm_avx2(const GemmCall& call, Scratch& scratch);
void gemm_avx512_bf16(const GemmCall& call, Scratch& scratch);

}  // namespace mok::cpu
