// run_case.hpp: the way of one case: batch, execution, file, check, hashes.
#pragma once

#include <optional>
#include <string>

#include "cli/case.hpp"
#include "cli/progress.hpp"
#include "cli/report.hpp"
#include "cli/sources.hpp"
#include "mok/status.hpp"

namespace mok::cli {

// Outputs are written before they are checked: a wrong result is worth looking at.
[[nodiscard]] Result<RunResult> run_case(const Case& description, const Sources& sources,
                                         std::optional<CheckMode> asked,
                                         const std::string& outputs_path,
                                         Progress::Output progress_output);

// "full (as asked)"
[[nodiscard]] std::string check_text(const CheckPlan& plan);

}  // namespace mok::cli
