// flags.hpp: the command line as words: which command, which flags were given, with which text.
//
// Nothing is interpreted here; request.hpp turns the words of `mok run` into a case.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mok/status.hpp"

namespace mok::cli {

class Flags {
 public:
  void set(std::string name, std::string text) { texts_[std::move(name)] = std::move(text); }
  // nullptr when the flag was not given. Switches hold "true" when given.
  [[nodiscard]] const std::string* find(std::string_view name) const {
    const auto place = texts_.find(name);
    return place == texts_.end() ? nullptr : &place->second;
  }
  [[nodiscard]] bool given(std::string_view name) const { return find(name) != nullptr; }

 private:
  std::map<std::string, std::string, std::less<>> texts_;
};

struct CommandLine {
  std::string command;  // run, verify or doctor
  Flags flags;
  std::optional<std::string> text;  // --help or --version: print this, do nothing else
};

[[nodiscard]] Result<CommandLine> parse_command_line(const std::vector<std::string>& arguments);

}  // namespace mok::cli
