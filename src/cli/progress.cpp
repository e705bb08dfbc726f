// progress.cpp: the bar, redrawn by a thread of its own.
#include "cli/progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "cli/terminal.hpp"

namespace mok::cli {

namespace {

constexpr auto kPatience = std::chrono::seconds(2);
constexpr auto kInterval = std::chrono::milliseconds(200);
constexpr int kWidth = 30;

}  // namespace

Progress::Output Progress::on_stderr() {
  return ::isatty(STDERR_FILENO) == 1 ? Output::kTerminal : Output::kNone;
}

Progress::Progress(double total, Output output) : total_(total) {
  if (output == Output::kTerminal) {
    ticker_ = std::jthread([this](const std::stop_token& stop) { tick(stop); });
  }
}

Progress::~Progress() {
  if (ticker_.joinable()) {
    ticker_.request_stop();
    ticker_.join();
  }
  if (is_drawn_) {
    print_err("\r\033[K");
    std::fflush(stderr);
  }
}

void Progress::start(std::string what) {
  const std::lock_guard lock(mutex_);
  what_ = std::move(what);
}

void Progress::advance(double amount) {
  const std::lock_guard lock(mutex_);
  done_ += amount;
}

void Progress::tick(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    wake_.wait_for(lock, stop, kInterval, [] { return false; });
    if (!stop.stop_requested() && std::chrono::steady_clock::now() - begin_ >= kPatience) {
      draw();
    }
  }
}

void Progress::draw() {
  const double part = total_ > 0.0 ? std::clamp(done_ / total_, 0.0, 1.0) : 0.0;
  const int filled = static_cast<int>(part * kWidth);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin_;
  print_err(fmt::format("\r\033[K[{}{}] {:3.0f}% {:.0f} s  {}",
                        std::string(static_cast<std::size_t>(filled), '#'),
                        std::string(static_cast<std::size_t>(kWidth - filled), '.'), part * 100.0,
                        elapsed.count(), what_));
  std::fflush(stderr);
  is_drawn_ = true;
}

}  // namespace mok::cli
