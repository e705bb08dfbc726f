// request_test.cpp: flags of `mok run` into a case; each rule names its flag.
#include "cli/request.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "cli/check.hpp"
#include "cli/memory.hpp"
#include "cli/validate.hpp"

namespace mok::cli {
namespace {

using Pairs = std::vector<std::pair<std::string, std::string>>;

Flags flags_of(const Pairs& pairs) {
  Flags flags;
  for (const auto& [name, text] : pairs) {
    flags.set(name, text);
  }
  return flags;
}

Status refusal_of(const Pairs& pairs) {
  const Result<RunRequest> request = read_request(flags_of(pairs));
  return request ? Status{} : request.error();
}

TEST(Request, DefaultsAreTheDocumentedShape) {
  const Result<Case> made = case_of_flags({});
  ASSERT_TRUE(made.has_value());
  EXPECT_EQ(made->tokens, (std::vector<std::int64_t>{64, 64, 64, 64}));
  EXPECT_EQ(made->shape.hidden, 512);
  EXPECT_EQ(made->shape.intermediate, 256);
  EXPECT_EQ(made->shape.shared_intermediate, 256);
  EXPECT_EQ(made->shape.experts, 16);
  EXPECT_EQ(made->shape.topk, 4);
  EXPECT_EQ(default_ring_rows(made->shape, 4), 512);
  EXPECT_EQ(default_saved_rows(made->shape, 4), 576);
}

TEST(Request, SharedWidthFollowsIntermediate) {
  EXPECT_EQ(case_of_flags(flags_of({{"--intermediate", "40"}}))->shape.shared_intermediate, 40);
  EXPECT_EQ(case_of_flags(flags_of({{"--shared-intermediate", "0"}}))->shape.shared_intermediate,
            0);
}

TEST(Request, ModelSetsSizesForTheRanks) {
  const Result<Case> made =
      case_of_flags(flags_of({{"--model", "kimi-k2.7/ep64"}, {"--ranks", "2"}}));
  ASSERT_TRUE(made.has_value()) << made.error().message();
  EXPECT_EQ(made->shape.hidden, 7168);
  EXPECT_EQ(made->shape.intermediate, 2048);
  EXPECT_EQ(made->shape.shared_intermediate, 2048);
  EXPECT_EQ(made->shape.experts, 12);
  EXPECT_EQ(made->shape.topk, 8);
  EXPECT_EQ(made->tokens, (std::vector<std::int64_t>{2048, 2048}));
  const Result<Case> fewer =
      case_of_flags(flags_of({{"--model", "qwen3-30b/ep8"}, {"--ranks", "1"}, {"--tokens", "16"}}));
  ASSERT_TRUE(fewer.has_value());
  EXPECT_EQ(fewer->tokens, (std::vector<std::int64_t>{16}));
}

struct Rule {
  Pairs flags;
  std::string argument;
  std::string in_rule;
};

TEST(Request, EveryRuleNamesItsFlag) {
  const std::vector<Rule> rules = {
      {{{"--hidden", "12"}}, "--hidden", "multiple of 8"},
      {{{"--hidden", "0"}}, "--hidden", "from 8"},
      {{{"--hidden", "abc"}}, "--hidden", "whole number"},
      {{{"--intermediate", "-8"}}, "--intermediate", "from 8"},
      {{{"--shared-intermediate", "4"}}, "--shared-intermediate", "multiple of 8"},
      {{{"--experts", "0"}}, "--experts", "from 1"},
      {{{"--topk", "0"}}, "--topk", "from 1 to 32"},
      {{{"--topk", "33"}, {"--experts", "64"}}, "--topk", "from 1 to 32"},
      {{{"--topk", "17"}}, "--topk", "--experts 16"},
      {{{"--ranks", "0"}}, "--ranks", "from 1"},
      {{{"--ranks", "70000"}}, "--ranks", "65535"},
      {{{"--workers", "0"}}, "--workers", "from 1"},
      {{{"--tokens", "1,2,3"}}, "--tokens", "--ranks 4"},
      {{{"--tokens", "1,2"}, {"--ranks", "3"}}, "--tokens", "--ranks 3"},
      {{{"--tokens", "1,,2,3"}}, "--tokens", "whole number"},
      {{{"--tokens", "-1"}}, "--tokens", "from 0"},
      {{{"--layers", "0"}}, "--layers", "from 1"},
      {{{"--microbatches", "x"}}, "--microbatches", "whole number"},
      {{{"--ring-rows", "100"}}, "--ring-rows", "multiple of 64"},
      {{{"--ring-rows", "64"}}, "--ring-rows", "from " + std::to_string(smallest_ring_rows())},
      {{{"--saved-rows", "-64"}}, "--saved-rows", "from 0"},
      {{{"--saved-rows", "65"}}, "--saved-rows", "multiple of 64"},
      {{{"--save", "none"}, {"--saved-rows", "64"}}, "--saved-rows", "--save none"},
      {{{"--swiglu-limit", "0"}}, "--swiglu-limit", "above 0"},
      {{{"--swiglu-limit", "inf"}}, "--swiglu-limit", "finite"},
      {{{"--swiglu-limit", "nan"}}, "--swiglu-limit", "finite"},
      {{{"--output-gate", "true"}, {"--shared-intermediate", "0"}}, "--output-gate", "shared"},
      {{{"--backend", "cuda"}}, "--backend", "no CUDA layer"},
      {{{"--backend", "gpu"}}, "--backend", "nearest is"},
      {{{"--engine", "avx512"}}, "--engine", "nearest is avx512_bf16"},
      {{{"--dispatch", "scatter"}}, "--dispatch", "pull or push"},
      {{{"--combine", "scater"}}, "--combine", "nearest is scatter"},
      {{{"--dy-dispatch", "puhs"}}, "--dy-dispatch", "nearest is push"},
      {{{"--dx-combine", ""}}, "--dx-combine", "must be scatter"},
      {{{"--save", "some"}}, "--save", "all or none"},
      {{{"--grad", "main_grad"}}, "--grad", "nearest is main-grad"},
      {{{"--check", "ful"}}, "--check", "nearest is full"},
      {{{"--routing", "unifrom"}}, "--routing", "nearest is uniform"},
      {{{"--routing", "random"}}, "--routing", "must be router"},
      {{{"--routing", "file:"}}, "--routing", "file:PATH"},
      {{{"--routing", "file:does/not/exist"}}, "--routing", "file"},
      {{{"--x", "ramdom"}}, "--x", "nearest is random"},
      {{{"--x", "text:does/not/exist"}}, "--x", "file"},
      {{{"--inputs", "does/not/exist"}}, "--inputs", "file"},
      {{{"--inputs", "f"}, {"--layers", "2"}}, "--layers", "--inputs"},
      {{{"--inputs", "f"}, {"--x", "random"}}, "--x", "--inputs"},
      {{{"--inputs", "f"}, {"--routing", "hot"}}, "--routing", "--inputs"},
      {{{"--inputs", "f"}, {"--model", "glm-5.2/ep8"}}, "--model", "--inputs"},
      {{{"--outputs", "f"}, {"--microbatches", "2"}}, "--microbatches", "--outputs"},
      {{{"--outputs", "no/such/folder/f"}}, "--outputs", "folder"},
      {{{"--outputs", "."}}, "--outputs", "regular file"},
      {{{"--case", "does/not/exist"}}, "--case", "file"},
      {{{"--case", "f"}, {"--hidden", "64"}}, "--hidden", "--case"},
      {{{"--case", "f"}, {"--seed", "2"}}, "--seed", "--case"},
      {{{"--case", "f"}, {"--inputs", "g"}}, "--inputs", "--case"},
      {{{"--model", "kimi"}}, "--model", "nearest is kimi-k2.7/ep8"},
      {{{"--model", "qwen3-30b/ep64"}}, "--model", "nearest is"},
      {{{"--model", "kimi-k2.7/ep64"}, {"--ranks", "1"}}, "--model", "more --ranks"},
      {{{"--model", "glm-5.2/ep8"}, {"--hidden", "512"}}, "--hidden", "6144"},
      {{{"--seed", "-1"}}, "--seed", "2^64"},
      {{{"--join-deadline-ms", "0"}}, "--join-deadline-ms", "from 1"},
      {{{"--progress-deadline-ms", "1s"}}, "--progress-deadline-ms", "whole number"},
      {{{"--hidden", "1099511627776"}}, "--hidden", "this machine has"},
      {{{"--hidden", "1099511627776"}, {"--intermediate", "1099511627776"}}, "--hidden", "64 bits"},
      {{{"--tokens", "1000000000"}}, "--tokens", "this machine has"},
      {{{"--experts", "1000000"}, {"--hidden", "4096"}}, "--experts", "this machine has"},
      {{{"--layers", "1000000"}}, "--layers", "this machine has"},
      {{{"--microbatches", "1000000"}}, "--microbatches", "this machine has"},
      {{{"--ring-rows", "1099511627776"}}, "--ring-rows", ""},
      {{{"--saved-rows", "1099511627776"}}, "--saved-rows", ""},
  };
  for (const Rule& rule : rules) {
    const Status status = refusal_of(rule.flags);
    std::string words;
    for (const auto& [name, text] : rule.flags) {
      words += name + " " + text + " ";
    }
    EXPECT_EQ(exit_status(status.code()), 2) << words << status.message();
    EXPECT_EQ(status.argument(), rule.argument) << words << status.message();
    EXPECT_NE(status.rule().find(rule.in_rule), std::string::npos) << words << status.message();
    EXPECT_EQ(status.message().find('\n'), std::string::npos) << words;
  }
}

TEST(Memory, CountsEveryArrayOfARun) {
  Case description;
  description.set_max_tokens();
  const MemoryNeed need = memory_need(description, CheckMode::kOff);
  std::uint64_t sum = 0;
  std::uint64_t weights = 0;
  for (const MemoryTerm& term : need.terms) {
    sum += term.bytes;
    weights += term.name == "expert weights" ? term.bytes : 0;
  }
  EXPECT_EQ(sum, need.total_bytes);
  EXPECT_EQ(weights, 3U * 16 * 256 * 512 * 2);
  EXPECT_GT(memory_need(description, CheckMode::kFull).total_bytes, need.total_bytes);
  EXPECT_TRUE(check_memory(description, CheckMode::kOff, need.total_bytes).ok());
  EXPECT_FALSE(check_memory(description, CheckMode::kOff, need.total_bytes - 1).ok());
}

}  // namespace
}  // namespace mok::cli
