// world.hpp: one rank's place in its expert-parallel group, and how the ranks reach each other's memory.
#pragma once

#include <memory>
#include <vector>

#include "mok/status.hpp"

namespace mok {

namespace comm {
class Group;
}

// Handle of one rank. Copies are cheap and refer to the same group. Thread-safe.
class World {
 public:
  // R ranks in this process. Each rank's calls are made by a thread of its own (a call waits for the
  // other ranks), except that one rank alone needs none. num_ranks: 1 .. 65535.
  [[nodiscard]] static Result<std::vector<World>> local(int num_ranks);

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int num_ranks() const;
  [[nodiscard]] comm::Group& group() const { return *group_; }

 private:
  World(std::shared_ptr<comm::Group> group, int rank) : group_(std::move(group)), rank_(rank) {}
  std::shared_ptr<comm::Group> group_;
  int rank_ = 0;
};

}  // namespace mok
