// version.hpp: the version that the command prints.
#pragma once

#include <string_view>

namespace mok::cli {

[[nodiscard]] std::string_view version();

}  // namespace mok::cli
