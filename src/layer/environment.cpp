// environment.cpp: environment variables.
#include "layer/environment.hpp"

#include <cstdlib>

namespace mok {

double deadline_scale() {
  const char* text = std::getenv("MOK_DEADLINE_SCALE");
  if (text == nullptr) {
    return 1.0;
  }
  const double scale = std::strtod(text, nullptr);
  return scale >= 1.0 && scale <= 1e6 ? scale : 1.0;
}

}  // namespace mok
