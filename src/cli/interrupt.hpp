// interrupt.hpp: Ctrl-C ends the command with exit status 130 and leaves no half-written file.
#pragma once

namespace mok::cli {

inline constexpr int kInterruptedStatus = 130;

// Once, before any thread is started.
void install_interrupt_handler();

// While one lives an interruption waits; its end carries it out.
class InterruptLater {
 public:
  InterruptLater();
  ~InterruptLater();
  InterruptLater(const InterruptLater&) = delete;
  InterruptLater& operator=(const InterruptLater&) = delete;
};

}  // namespace mok::cli
