// version.cpp: the version, from the build.
#include "cli/version.hpp"

namespace mok::cli {

std::string_view version() {
  return MOK_VERSION;
}

}  // namespace mok::cli
