// outputs.hpp: the named arrays of a run as bytes: hashes, and the file of `--outputs`.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "cli/batch.hpp"
#include "cli/case.hpp"
#include "cli/execute.hpp"
#include "mok/status.hpp"
#include "reference/reference.hpp"

namespace mok::cli {

// XXH64 of each output's bytes as the file holds them, over (layer, micro-batch) in order; absent where
// the layer has no such output.
using Hashes = std::array<std::optional<std::string>, reference::kNumOutputs>;
[[nodiscard]] Hashes hash_outputs(const Execution& execution);

// Inputs and results of a case with one layer and one micro-batch, as safetensors.
[[nodiscard]] Status write_outputs(const Case& description, const Batch& batch,
                                   const Execution& execution, const std::string& path);

}  // namespace mok::cli
