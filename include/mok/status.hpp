// status.hpp: what every MoK function returns when it cannot do its work: a typed code and the facts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include <tl/expected.hpp>

namespace mok {

// docs/errors.md lists for each code: cause, state afterwards, who acts.
enum class Code : std::uint8_t {
  kOk = 0,
  kBadArgument,   // the caller's mistake, refused before any side effect
  kBadFile,       // a file that is missing, truncated, or not what it says
  kEnvironment,   // the machine cannot do it: memory, engine, driver
  kTimeout,       // a deadline passed while waiting for a rank
  kPeerLost,      // a rank of the group is gone
  kCallMismatch,  // the ranks of the group paired different calls
  kAborted,       // another rank reported first, or the caller asked to stop
  kPoisoned,      // an earlier failure left this workspace unusable: make a new one
  kCheckFailed,   // a verification found a wrong number
  kInternal,      // a broken invariant of MoK itself
};

[[nodiscard]] std::string_view code_name(Code code);

// Process exit status of the command for a code: 0 ok, 1 check failed, 2 caller or environment,
// 3 time-out or peer lost.
[[nodiscard]] int exit_status(Code code);

class [[nodiscard]] Status {
 public:
  Status() = default;

  // `argument`: which input; `value`: what it was; `rule`: what it must be. One line each.
  static Status bad_argument(std::string argument, std::string value, std::string rule);
  static Status bad_file(std::string path, std::string value, std::string rule);
  static Status environment(std::string what, std::string value, std::string way_out);
  static Status check_failed(std::string what, std::string value, std::string rule);

  // A failure inside a call. `rank` is the rank to look at (the one that was waited for).
  struct WaitFacts {
    int rank = -1;
    std::string site;  // docs/protocol.md names the sites
    std::uint64_t expected = 0;
    std::uint64_t seen = 0;
    std::uint64_t epoch = 0;  // number of the call
    int reporter = -1;        // the rank that found out
  };
  static Status wait_failed(Code code, WaitFacts facts);
  static Status poisoned(const Status& first);

  [[nodiscard]] bool ok() const { return code_ == Code::kOk; }
  [[nodiscard]] Code code() const { return code_; }
  [[nodiscard]] const std::string& argument() const { return argument_; }
  [[nodiscard]] const std::string& value() const { return value_; }
  [[nodiscard]] const std::string& rule() const { return rule_; }
  [[nodiscard]] const WaitFacts& wait() const { return wait_; }
  // One line, no line break: what, which value, which rule; or rank, site, expected, seen, epoch.
  [[nodiscard]] std::string message() const;

 private:
  Code code_ = Code::kOk;
  std::string argument_;
  std::string value_;
  std::string rule_;
  WaitFacts wait_;
};

template <class T>
using Result = tl::expected<T, Status>;

// `return failure(Status::bad_argument(...));` from a function that returns Result<T>.
inline tl::unexpected<Status> failure(Status status) {
  return tl::unexpected<Status>(std::move(status));
}

}  // namespace mok
