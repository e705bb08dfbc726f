// main.cpp: the command `mok`.
#include <string>
#include <vector>

#include "cli/commands.hpp"
#include "cli/interrupt.hpp"

int main(int argc, char** argv) {
  mok::cli::install_interrupt_handler();
  const std::vector<std::string> arguments(argv + (argc > 0 ? 1 : 0), argv + argc);
  return mok::cli::run_command_line(arguments);
}
