// shared_library.hpp: a library that may or may not be on this machine, opened at run time.
#pragma once

#include <dlfcn.h>

#include <initializer_list>
#include <string>

namespace mok::cli {

// Stays open: drivers do not like to be unloaded.
class SharedLibrary {
 public:
  // The first name that opens; not open when none does.
  explicit SharedLibrary(std::initializer_list<std::string> names) {
    for (const std::string& name : names) {
      if (handle_ == nullptr && !name.empty()) {
        handle_ = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
      }
    }
  }
  [[nodiscard]] bool is_open() const { return handle_ != nullptr; }

  // nullptr when the library or the symbol is absent.
  template <class Function>
  [[nodiscard]] Function* function(const char* name) const {
    return handle_ == nullptr ? nullptr : reinterpret_cast<Function*>(::dlsym(handle_, name));
  }

  // The file that holds `address`.
  [[nodiscard]] static std::string path_of(const void* address) {
    Dl_info info{};
    return ::dladdr(address, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
  }

 private:
  void* handle_ = nullptr;
};

}  // namespace mok::cli
