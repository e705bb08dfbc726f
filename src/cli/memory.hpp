// memory.hpp: what a run allocates, and whether this machine has it.
#pragma once

#include <cstdint>
#include <vector>

#include "cli/case.hpp"
#include "mok/layer.hpp"
#include "mok/status.hpp"

namespace mok::cli {

// Physical memory, or the limit of this process's control group where that is less.
[[nodiscard]] std::uint64_t machine_memory_bytes();

struct MemoryNeed {
  std::vector<MemoryTerm> terms;  // saturating at 2^64 - 1
  std::uint64_t total_bytes = 0;  // likewise
};

// Ranks' workspaces and contexts by the library's formula, the tensors, the reference's arrays.
[[nodiscard]] MemoryNeed memory_need(const Case& description, CheckMode check);

// Refuses a case that does not fit `machine_bytes` or 64 bits; the flag it names is the size that
// adds most: the one whose smallest legal value would save the most bytes.
[[nodiscard]] Status check_memory(const Case& description, CheckMode check,
                                  std::uint64_t machine_bytes);

// "1.5 GiB"
[[nodiscard]] std::string bytes_text(std::uint64_t bytes);

}  // namespace mok::cli
