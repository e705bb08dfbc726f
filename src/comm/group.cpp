// group.cpp: arenas of ranks in one process.
#include "comm/group.hpp"

#include <cstdlib>
#include <utility>

#include "mok/world.hpp"

namespace mok::comm {

namespace {
constexpr std::uint64_t kPage = 4096;
}

Memory::Memory(std::uint64_t bytes) : bytes_(bytes) {
  void* memory = nullptr;
  if (posix_memalign(&memory, kPage, bytes == 0 ? 1 : bytes) == 0) {
    data_ = static_cast<std::byte*>(memory);
  }
}

Memory::~Memory() {
  std::free(data_);
}

void ArenaSet::publish(int rank, Memory arena, std::string agreement) {
  Member& own = members_[static_cast<std::size_t>(rank)];
  own.arena = std::move(arena);
  own.agreement = std::move(agreement);
  own.joined.store(true, std::memory_order_release);  // pairs with: joined()
}

void ArenaSet::fail(const Status& status) {
  const std::lock_guard lock(mutex_);
  if (failure_.ok()) {
    failure_ = status;
    failed_.store(true, std::memory_order_release);
  }
}

Status ArenaSet::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

std::shared_ptr<ArenaSet> Group::next_set(int rank) {
  const std::lock_guard lock(mutex_);
  const std::size_t index = next_set_[static_cast<std::size_t>(rank)]++ - first_waiting_;
  if (index == waiting_.size()) {
    waiting_.push_back(Waiting{std::make_shared<ArenaSet>(num_ranks_, first_waiting_ + index), 0});
  }
  std::shared_ptr<ArenaSet> set = waiting_[index].set;
  ++waiting_[index].num_taken;
  while (!waiting_.empty() && waiting_.front().num_taken == num_ranks_) {
    waiting_.pop_front();  // every rank has it: its workspaces keep it alive from here
    ++first_waiting_;
  }
  return set;
}

}  // namespace mok::comm

namespace mok {

Result<std::vector<World>> World::local(int num_ranks) {
  if (num_ranks < 1 || num_ranks > 65535) {
    return failure(Status::bad_argument("ranks", std::to_string(num_ranks), "must be 1 .. 65535"));
  }
  const auto group = std::make_shared<comm::Group>(num_ranks);
  std::vector<World> worlds;
  worlds.reserve(static_cast<std::size_t>(num_ranks));
  for (int rank = 0; rank < num_ranks; ++rank) {
    worlds.push_back(World(group, rank));
  }
  return worlds;
}

int World::num_ranks() const {
  return group_->num_ranks();
}

}  // namespace mok
