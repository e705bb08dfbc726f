// request.hpp: from the flags of `mok run` to a case, its files and what to do with it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/case.hpp"
#include "cli/flags.hpp"
#include "cli/sources.hpp"
#include "mok/status.hpp"

namespace mok::cli {

enum class Format : std::uint8_t { kText, kJson };

struct RunRequest {
  Case description;
  Sources sources;
  std::optional<CheckMode> check;  // absent: by the size of the forward
  std::string outputs_path;        // empty: no file
  Format format = Format::kText;
  std::vector<std::string> notes;  // what the user should know about the input, a line each
};

// Everything is checked here: flags, files, sizes, memory. What passes can be run.
[[nodiscard]] Result<RunRequest> read_request(const Flags& flags);

// The case of the flags alone, before files are opened; for tests and read_request().
[[nodiscard]] Result<Case> case_of_flags(const Flags& flags);

// Fits sizes to the files: E and k of a recording, everything of a file of inputs. `flags` may be
// empty (case files); explicit sizes that contradict a file are refused.
[[nodiscard]] Status fit_to_sources(const Flags& flags, const Sources& sources, Case& description);

// FLOP of the forward if every slot has a route; decides between full and sample.
[[nodiscard]] double most_forward_flop(const Case& description);

}  // namespace mok::cli
