// team.hpp: threads that run one function together and meet at barriers.
#pragma once

#include <barrier>
#include <cstdint>
#include <thread>
#include <vector>

namespace mok::reference {

// One thread of the team. Work is shared out by index modulo size, so that every output element has
// one owner and no two threads write the same memory between two meetings.
struct Member {
  int index = 0;
  int size = 1;
  std::barrier<>* barrier = nullptr;

  void meet() const {
    if (size > 1) {
      barrier->arrive_and_wait();
    }
  }

  // Calls body(i) for this member's share of 0 <= i < count.
  template <class Body>
  void share(std::int64_t count, Body&& body) const {
    for (std::int64_t i = index; i < count; i += size) {
      body(i);
    }
  }
};

// Runs body(member) on `num_threads` threads, the caller's among them, and returns when all are
// done.
template <class Body>
void run_team(int num_threads, Body&& body) {
  const int size = num_threads < 1 ? 1 : num_threads;
  std::barrier<> barrier(size);
  std::vector<std::jthread> others;
  others.reserve(static_cast<std::size_t>(size - 1));
  for (int index = 1; index < size; ++index) {
    others.emplace_back([&body, &barrier, index, size] { body(Member{index, size, &barrier}); });
  }
  body(Member{0, size, &barrier});
}

}  // namespace mok::reference
