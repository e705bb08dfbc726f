// progress.hpp: a bar on the terminal for what takes longer than two seconds.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace mok::cli {

// Draws on stderr, and only where that is a terminal: nothing is ever in the way of a pipe or a log.
// Thread-safe. The line is wiped on destruction.
class Progress {
 public:
  enum class Output : std::uint8_t { kTerminal, kNone };
  // `total`: of the amounts that advance() is told, in any unit.
  Progress(double total, Output output);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void start(std::string what);  // what runs now
  void advance(double amount);

  // stderr, if it is a terminal.
  [[nodiscard]] static Output on_stderr();

 private:
  void tick(const std::stop_token& stop);
  void draw();

  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::string what_;
  double total_;
  double done_ = 0.0;
  bool is_drawn_ = false;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::jthread ticker_;  // last: it uses the rest
};

}  // namespace mok::cli
