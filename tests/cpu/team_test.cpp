// team_test.cpp: a thread team runs every worker, and ends cleanly where the system gives no thread.
#include "cpu/machine.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <system_error>

namespace mok::cpu {
namespace {

TEST(Team, RunsEachWorkerOncePerRound) {
  Team team(4);
  for (int round = 0; round < 50; ++round) {
    std::atomic<std::uint32_t> seen{0};
    team.run([&](std::uint32_t worker) { seen.fetch_or(1U << worker); });
    EXPECT_EQ(seen.load(), 0xfU);
  }
}

// In a child process, since the limit on memory stays: threads want 8 MiB of address space each.
TEST(Team, ThrowsWhereNoThreadIsToBeHad) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers need their address space";
#endif
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(20);  // a team that hangs ends by signal
    rlimit limit{1ULL << 30, 1ULL << 30};
    setrlimit(RLIMIT_AS, &limit);
    int status = 1;
    try {
      Team team(1000);
    } catch (const std::system_error&) {
      status = 0;
    } catch (const std::bad_alloc&) {
      status = 0;
    }
    _exit(status);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace mok::cpu
