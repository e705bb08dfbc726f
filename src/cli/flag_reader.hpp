// flag_reader.hpp: turns flags into values one after the other and keeps the first refusal.
#pragma once

#include <cstddef>
#include <string>
#include <utility>

#include "cli/flags.hpp"
#include "cli/names.hpp"
#include "mok/status.hpp"

namespace mok::cli {

// Reads flags one by one; after the first refusal the rest is skipped.
class FlagReader {
 public:
  explicit FlagReader(const Flags& flags) : flags_(flags) {}

  template <class Int>
  void number(const char* flag, NumberRule rule, Int& out) {
    if (const std::string* text = next(flag)) {
      keep(parse_number(flag, *text, rule), out);
    }
  }
  template <class Value, std::size_t N>
  void word(const char* flag, const Word<Value> (&words)[N], Value& out) {
    if (const std::string* text = next(flag)) {
      keep(parse_word(flag, *text, words), out);
    }
  }
  // The flag's text, or nullptr where it was not given or something was refused before.
  const std::string* next(const char* flag) { return status_.ok() ? flags_.find(flag) : nullptr; }
  void refuse(Status status) {
    if (status_.ok()) {
      status_ = std::move(status);
    }
  }
  [[nodiscard]] const Status& status() const { return status_; }

 private:
  template <class Value, class Out>
  void keep(Result<Value> value, Out& out) {
    if (value) {
      out = static_cast<Out>(*value);
    } else {
      refuse(value.error());
    }
  }

  const Flags& flags_;
  Status status_;
};

}  // namespace mok::cli
