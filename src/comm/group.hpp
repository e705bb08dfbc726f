// group.hpp: the ranks of one process: their arenas, who has joined, and the first failure.
//
// The k-th workspace that each rank makes belongs to the k-th ArenaSet. The set owns the arenas of all
// its ranks, so that a slow rank can still store its last flags after a fast one has dropped its
// workspace; they are freed with the last workspace of the set.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "mok/status.hpp"

namespace mok::comm {

// Memory of a given size; contents undefined. Never throws: data() is nullptr when there is none.
class Memory {
 public:
  Memory() = default;
  explicit Memory(std::uint64_t bytes);
  Memory(Memory&& other) noexcept { swap(other); }
  Memory& operator=(Memory&& other) noexcept {
    swap(other);
    return *this;
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory();

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

 private:
  void swap(Memory& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
  }
  std::byte* data_ = nullptr;
  std::uint64_t bytes_ = 0;
};

class ArenaSet {
 public:
  ArenaSet(int num_ranks, std::uint64_t number)
      : number_(number), members_(static_cast<std::size_t>(num_ranks)) {}

  // The set's place among those of its group: the same at every rank.
  [[nodiscard]] std::uint64_t number() const { return number_; }

  // Hands over a rank's arena, its shared words zeroed. `agreement` describes shape and options; all
  // ranks must hand over the same.
  void publish(int rank, Memory arena, std::string agreement);
  [[nodiscard]] bool joined(int rank) const {
    return member(rank).joined.load(std::memory_order_acquire);
  }
  // After joined(rank).
  [[nodiscard]] std::byte* base(int rank) const { return member(rank).arena.data(); }
  [[nodiscard]] const std::string& agreement(int rank) const { return member(rank).agreement; }
  [[nodiscard]] std::uint64_t arena_bytes(int rank) const { return member(rank).arena.bytes(); }
  // Every rank has handed its arena over.
  [[nodiscard]] bool complete() const {
    return std::all_of(members_.begin(), members_.end(), [](const Member& member) {
      return member.joined.load(std::memory_order_acquire);
    });
  }

  // The first failure counts; later ones are echoes of it.
  void fail(const Status& status);
  // Cheap enough for every poll. Pairs with: fail().
  [[nodiscard]] bool failed() const { return failed_.load(std::memory_order_acquire); }
  [[nodiscard]] Status failure() const;

 private:
  struct Member {
    std::atomic<bool> joined{false};
    Memory arena;
    std::string agreement;
  };
  [[nodiscard]] const Member& member(int rank) const {
    return members_[static_cast<std::size_t>(rank)];
  }
  std::uint64_t number_;
  std::vector<Member> members_;
  mutable std::mutex mutex_;
  Status failure_;
  std::atomic<bool> failed_{false};
};

class Group {
 public:
  explicit Group(int num_ranks)
      : num_ranks_(num_ranks), next_set_(static_cast<std::size_t>(num_ranks)) {}

  [[nodiscard]] int num_ranks() const { return num_ranks_; }
  // The set of this rank's next workspace.
  [[nodiscard]] std::shared_ptr<ArenaSet> next_set(int rank);

 private:
  struct Waiting {  // a set that not every rank has taken yet
    std::shared_ptr<ArenaSet> set;
    int num_taken = 0;
  };
  int num_ranks_;
  std::mutex mutex_;
  std::vector<std::size_t> next_set_;  // number of each rank's next set
  std::size_t first_waiting_ = 0;      // number of waiting_.front()
  std::deque<Waiting> waiting_;
};

}  // namespace mok::comm
