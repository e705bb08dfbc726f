// terminal.hpp: text for people on stderr. One that is closed or full costs the text, not the run.
#pragma once

#include <string_view>

namespace mok::cli {

void print_err(std::string_view text);

}  // namespace mok::cli
