// commands.hpp: the subcommands; each returns the exit status of the process.
#pragma once

#include <string>
#include <vector>

#include "cli/flags.hpp"

namespace mok::cli {

// One training step, checked.
[[nodiscard]] int run_command(const Flags& flags);
// Random cases against the reference.
[[nodiscard]] int verify_command(const Flags& flags);
// What the machine has.
[[nodiscard]] int doctor_command(const Flags& flags);

// The whole command line without the program's name: chooses the subcommand, prints failures.
[[nodiscard]] int run_command_line(const std::vector<std::string>& arguments);

}  // namespace mok::cli
