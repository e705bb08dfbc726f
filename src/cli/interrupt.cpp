// interrupt.cpp: the signal handler. Ranks wait for each other, so there is nobody to ask to stop; the
// process ends at once, the kernel frees what it held.
#include "cli/interrupt.hpp"

#include <unistd.h>

#include <atomic>
#include <csignal>

namespace mok::cli {

namespace {

std::atomic<int> num_delays{0};
std::atomic<bool> is_pending{false};
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free,
              "a signal handler may use them");

[[noreturn]] void leave() {
  constexpr char kText[] = "\nmok: interrupted\n";
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, kText, sizeof(kText) - 1);
  ::_exit(kInterruptedStatus);
}

extern "C" void on_interrupt(int /*signal*/) {
  if (num_delays.load() > 0) {
    is_pending.store(true);
    return;
  }
  leave();
}

}  // namespace

void install_interrupt_handler() {
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  ::sigaction(SIGINT, &action, nullptr);
  // A file beyond the limit on file sizes is then a failed write, like a full disk.
  std::signal(SIGXFSZ, SIG_IGN);
}

InterruptLater::InterruptLater() {
  num_delays.fetch_add(1);
}

InterruptLater::~InterruptLater() {
  if (num_delays.fetch_sub(1) == 1 && is_pending.load()) {
    leave();
  }
}

}  // namespace mok::cli
