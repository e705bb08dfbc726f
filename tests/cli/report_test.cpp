// report_test.cpp: the JSON of failures, and what a run that failed its check prints.
#include "cli/report.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <string>

namespace mok::cli {
namespace {

TEST(FailureJson, HoldsCodeArgumentValueAndRule) {
  const auto json = nlohmann::json::parse(
      failure_json(Status::bad_argument("--hidden", "a \"b\" \xff", "must be a number")));
  EXPECT_EQ(json.size(), 2U);
  EXPECT_EQ(json["ok"], false);
  EXPECT_EQ(json["error"].size(), 4U);
  EXPECT_EQ(json["error"]["code"], "bad_argument");
  EXPECT_EQ(json["error"]["argument"], "--hidden");
  EXPECT_EQ(json["error"]["rule"], "must be a number");
}

TEST(FailureJson, OfATimeoutNamesRankAndSite) {
  const Status status = Status::wait_failed(
      Code::kTimeout,
      {.rank = 2, .site = "x_ready", .expected = 64, .seen = 16, .epoch = 3, .reporter = 0});
  const auto json = nlohmann::json::parse(failure_json(status));
  EXPECT_EQ(json["error"]["code"], "timeout");
  EXPECT_EQ(json["error"]["argument"], "rank 2");
  EXPECT_EQ(json["error"]["value"], "x_ready");
  EXPECT_NE(json["error"]["rule"].get<std::string>().find("expected 64"), std::string::npos);
  EXPECT_EQ(exit_status(status.code()), 3);
}

RunResult result_with(double error_over_bound) {
  RunResult result;
  result.execution.engine = "scalar";
  result.execution.ranks.resize(4);
  OutputError error;
  error.max_abs_err = error_over_bound;
  error.error_over_bound = error_over_bound;
  error.num_compared = 1;
  result.check.plan = {CheckMode::kFull, "as asked"};
  result.check.outputs[0] = error;
  result.hashes[0] = "xxh64:0123456789abcdef";
  return result;
}

TEST(RunReport, SaysWhetherTheCheckHeld) {
  const RunRequest request;
  const auto good = nlohmann::json::parse(run_json(request, result_with(0.5)));
  EXPECT_EQ(good["ok"], true);
  EXPECT_EQ(good["error_over_bound"]["y"], 0.5);
  EXPECT_EQ(good["hash"]["y"], "xxh64:0123456789abcdef");
  for (const double wrong : {1.0, 7.0, std::numeric_limits<double>::infinity(),
                             std::numeric_limits<double>::quiet_NaN()}) {
    const RunResult result = result_with(wrong);
    const auto json = nlohmann::json::parse(run_json(request, result));
    EXPECT_EQ(json["ok"], false) << wrong;
    EXPECT_TRUE(json["error_over_bound"]["y"].is_number()) << wrong;
    EXPECT_NE(run_text(request, result).find("FAILED: check_failed: y"), std::string::npos);
  }
}

}  // namespace
}  // namespace mok::cli
