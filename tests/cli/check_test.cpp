// check_test.cpp: runs pass the check, and a number that is wrong anywhere fails it by name.
#include "cli/check.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "cli/outputs.hpp"
#include "cli/random_case.hpp"
#include "core/bf16.hpp"

namespace mok::cli {
namespace {

using reference::Output;

Case small_case() {
  Case description;
  description.tokens = {5, 0, 9};
  description.shape = {.max_tokens = 0,
                       .hidden = 48,
                       .intermediate = 24,
                       .shared_intermediate = 16,
                       .experts = 6,
                       .topk = 3,
                       .output_gate = true,
                       .swiglu_limit = {}};
  description.x = XSource::kRandom;
  description.options.workers = 1;
  description.set_max_tokens();
  return description;
}

struct Done {
  Batch batch;
  Execution execution;
};

Done run(const Case& description) {
  Progress progress(1.0, Progress::Output::kNone);
  Result<Batch> batch = build_batch(description, {});
  EXPECT_TRUE(batch.has_value());
  Result<Execution> execution = execute(description, *batch, progress);
  EXPECT_TRUE(execution.has_value()) << execution.error().message();
  return {std::move(*batch), std::move(*execution)};
}

CheckResult check(const Case& description, const Done& done, CheckMode mode) {
  Progress progress(1.0, Progress::Output::kNone);
  Result<CheckResult> result =
      check_execution(description, done.batch, done.execution, {mode, "test"}, progress);
  EXPECT_TRUE(result.has_value());
  return std::move(*result);
}

TEST(Check, PassesForEveryFormOfGradient) {
  for (const Grad grad : {Grad::kBf16, Grad::kFp32, Grad::kMainGrad}) {
    for (const CheckMode mode : {CheckMode::kFull, CheckMode::kSample}) {
      Case description = small_case();
      description.grad = grad;
      description.layers = 2;
      description.microbatches = 3;
      const Done done = run(description);
      const CheckResult result = check(description, done, mode);
      EXPECT_TRUE(result.passes()) << result.status().message();
      for (const std::optional<OutputError>& error : result.outputs) {
        ASSERT_TRUE(error.has_value());
        EXPECT_GT(error->num_compared, 0);
      }
    }
  }
}

TEST(Check, OffChecksNothing) {
  const Case description = small_case();
  const Done done = run(description);
  const CheckResult result = check(description, done, CheckMode::kOff);
  EXPECT_TRUE(result.passes());
  for (const std::optional<OutputError>& error : result.outputs) {
    EXPECT_FALSE(error.has_value());
  }
}

void spoil(std::vector<Bf16>& values) {
  values[7] = to_bf16(to_float(values[7]) + 3.0F);
}
void spoil(std::vector<float>& values) {
  values[7] += 3.0F;
}

struct Spoiling {
  const char* output;
  std::function<void(Execution&)> spoil;
};

TEST(Check, NamesTheOutputThatIsWrong) {
  const std::vector<Spoiling> spoilings = {
      {"y", [](Execution& e) { spoil(e.steps[0].y); }},
      {"dx", [](Execution& e) { spoil(e.steps[0].dx); }},
      {"d_router", [](Execution& e) { spoil(e.steps[0].d_router); }},
      {"d_gate", [](Execution& e) { spoil(e.layers[0].gate.bf16); }},
      {"d_up", [](Execution& e) { spoil(e.layers[0].up.bf16); }},
      {"d_down", [](Execution& e) { spoil(e.layers[0].down.bf16); }},
      {"d_shared_gate", [](Execution& e) { spoil(e.layers[0].shared[0]); }},
      {"d_shared_up", [](Execution& e) { spoil(e.layers[0].shared[1]); }},
      {"d_shared_down", [](Execution& e) { spoil(e.layers[0].shared[2]); }},
      {"d_shared_output_gate", [](Execution& e) { spoil(e.layers[0].shared[3]); }},
      {"y", [](Execution& e) { e.steps[0].y[3] = Bf16{0xffff}; }},
      {"dx", [](Execution& e) { e.steps[0].dx.pop_back(); }},
  };
  const Case description = small_case();
  const Done done = run(description);
  ASSERT_TRUE(check(description, done, CheckMode::kFull).passes());
  const Hashes hashes = hash_outputs(done.execution);
  for (const Spoiling& spoiling : spoilings) {
    Done wrong = done;
    spoiling.spoil(wrong.execution);
    const Status status = check(description, wrong, CheckMode::kFull).status();
    EXPECT_EQ(status.code(), Code::kCheckFailed) << spoiling.output;
    EXPECT_EQ(exit_status(status.code()), 1);
    EXPECT_EQ(status.argument(), spoiling.output);
    EXPECT_NE(hash_outputs(wrong.execution), hashes);
  }
}

TEST(Check, GradientsOfTheLastMicrobatchAreTheOnesChecked) {
  Case description = small_case();
  description.microbatches = 2;
  Done done = run(description);
  ASSERT_TRUE(check(description, done, CheckMode::kFull).passes());
  std::swap(done.batch.steps[0], done.batch.steps[1]);
  std::swap(done.execution.steps[0], done.execution.steps[1]);
  EXPECT_EQ(check(description, done, CheckMode::kFull).status().argument(), "d_gate");
}

TEST(Execution, BitsDoNotDependOnRanks) {
  for (std::uint32_t number = 0; number < 4; ++number) {
    Case description = draw_case(21, number);
    const Hashes hashes = hash_outputs(run(description).execution);
    description.tokens = {description.total_tokens()};
    description.set_max_tokens();
    const Hashes alone = hash_outputs(run(description).execution);
    for (std::size_t i = 0; i <= static_cast<std::size_t>(Output::kDDown); ++i) {
      EXPECT_EQ(hashes[i], alone[i]) << number << " output " << i;
    }
  }
}

TEST(Execution, MemoryIsTheFormula) {
  Case description = small_case();
  description.layers = 2;
  const Done done = run(description);
  EXPECT_GT(done.execution.peak_bytes, 0U);
  EXPECT_EQ(done.execution.peak_bytes, done.execution.formula_bytes);
}

TEST(Execution, SharedGradientsAreSummedInRankOrder) {
  const Case description = small_case();
  const Done done = run(description);
  const LayerGrads& grads = done.execution.layers[0];
  for (std::size_t which = 0; which < kNumShared; ++which) {
    for (std::size_t i = 0; i < grads.shared[which].size(); ++i) {
      float sum = grads.shared_ranks[0][which][i];
      sum += grads.shared_ranks[1][which][i];
      sum += grads.shared_ranks[2][which][i];
      ASSERT_EQ(sum, grads.shared[which][i]);
    }
  }
}

}  // namespace
}  // namespace mok::cli
