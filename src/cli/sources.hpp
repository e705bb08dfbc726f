// sources.hpp: the files that a case's input comes from, read and checked before any work.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/case.hpp"
#include "io/routing_file.hpp"
#include "io/safetensors.hpp"
#include "mok/status.hpp"

namespace mok::cli {

struct Sources {
  std::vector<std::string> words;                // x: text
  std::optional<io::RecordedRouting> recording;  // routing: file
  std::optional<io::SafetensorsFile> inputs;     // everything
};

// Names the flag and the path: `bad_file: --routing = PATH: line 3: ...: rule`.
[[nodiscard]] Status in_flag(const char* flag, const std::string& path, const Status& problem);

[[nodiscard]] Result<Sources> read_sources(const Case& description);

// The sizes that a file of inputs gives; tokens stay as they are.
[[nodiscard]] Result<LayerShape> shape_of_inputs(const io::SafetensorsFile& file,
                                                 const std::string& path);
[[nodiscard]] std::int64_t tokens_of_inputs(const io::SafetensorsFile& file);

// dtypes, shapes and ids of the file against the case's shape.
[[nodiscard]] Status check_inputs(const Case& description, const io::SafetensorsFile& file);

}  // namespace mok::cli
