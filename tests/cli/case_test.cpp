// case_test.cpp: case files: everything comes back, everything wrong is named.
#include "cli/case.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cli/random_case.hpp"
#include "cli/validate.hpp"

namespace mok::cli {
namespace {

TEST(CaseFile, ComesBackAsItWas) {
  for (std::uint32_t number = 0; number < 200; ++number) {
    const Case drawn = draw_case(11, number);
    const std::string text = case_text(drawn);
    const Result<Case> read = parse_case(text, "case");
    ASSERT_TRUE(read.has_value()) << read.error().message() << text;
    EXPECT_EQ(case_text(*read), text);
    EXPECT_EQ(read->shape.max_tokens, drawn.shape.max_tokens);
    EXPECT_EQ(read->shape.swiglu_limit, drawn.shape.swiglu_limit);
    EXPECT_EQ(read->seed, drawn.seed);
    EXPECT_EQ(read->routing, drawn.routing);
    EXPECT_EQ(read->tokens, drawn.tokens);
  }
}

TEST(CaseFile, KeepsFilesAndLargeSeeds) {
  Case description;
  description.seed = 0xffffffffffffffffULL;
  description.routing = RoutingSource::kFile;
  description.routing_path = "a \"b\"\n.jsonl";
  description.text_path = "words.txt";
  description.inputs_path = "in.safetensors";
  const Result<Case> read = parse_case(case_text(description), "case");
  ASSERT_TRUE(read.has_value()) << read.error().message();
  EXPECT_EQ(read->seed, description.seed);
  EXPECT_EQ(read->routing_path, description.routing_path);
  EXPECT_EQ(read->text_path, description.text_path);
  EXPECT_EQ(read->inputs_path, description.inputs_path);
}

TEST(CaseFile, AbsentKeysAreDefaults) {
  const Result<Case> read = parse_case("{\"mok_case\": 1, \"tokens\": [3, 0]}", "case");
  ASSERT_TRUE(read.has_value()) << read.error().message();
  EXPECT_EQ(read->num_ranks(), 2);
  EXPECT_EQ(read->total_tokens(), 3);
  EXPECT_EQ(read->shape.max_tokens, 3);
  EXPECT_EQ(read->shape.hidden, Case{}.shape.hidden);
}

TEST(CaseFile, RefusesWhatIsNoCase) {
  const struct {
    const char* text;
    const char* in_message;
  } refusals[] = {
      {"", ""},
      {"[1]", "mok_case"},
      {"{\"tokens\": [1]}", "mok_case"},
      {"{\"mok_case\": 2}", "must be 1"},
      {"{\"mok_case\": 1, \"hiden\": 8}", "nearest is hidden"},
      {"{\"mok_case\": 1, \"hidden\": 8, \"hidden\": 16}", "hidden"},
      {"{\"mok_case\": 1, \"hidden\": \"8\"}", "whole number"},
      {"{\"mok_case\": 1, \"hidden\": 8.5}", "whole number"},
      {"{\"mok_case\": 1, \"hidden\": 99999999999999999999}", "whole number"},
      {"{\"mok_case\": 1, \"tokens\": []}", "list"},
      {"{\"mok_case\": 1, \"tokens\": [-1]}", "list"},
      {"{\"mok_case\": 1, \"tokens\": 4}", "list"},
      {"{\"mok_case\": 1, \"save\": \"al\"}", "nearest is all"},
      {"{\"mok_case\": 1, \"routing\": \"zip\"}", "nearest is zipf"},
      {"{\"mok_case\": 1, \"x\": \"words\"}", "text:FILE"},
      {"{\"mok_case\": 1, \"seed\": -1}", "2^64"},
      {"{\"mok_case\": 1, \"swiglu_limit\": true}", "number or null"},
      {"{\"mok_case\": 1, \"output_gate\": 1}", "true or false"},
      {"{\"mok_case\": 1", ""},
  };
  for (const auto& refusal : refusals) {
    const Result<Case> read = parse_case(refusal.text, "some.json");
    ASSERT_FALSE(read.has_value()) << refusal.text;
    EXPECT_EQ(read.error().code(), Code::kBadFile);
    EXPECT_NE(read.error().message().find("some.json"), std::string::npos);
    EXPECT_NE(read.error().message().find(refusal.in_message), std::string::npos)
        << refusal.text << " -> " << read.error().message();
  }
}

TEST(DrawnCase, IsLegalOddAndRepeatable) {
  bool has_zero_tokens = false;
  bool has_many_ranks = false;
  bool has_no_shared = false;
  bool has_layers = false;
  for (std::uint32_t number = 0; number < 500; ++number) {
    const Case drawn = draw_case(5, number);
    const Status status = validate_case(drawn);
    EXPECT_TRUE(status.ok()) << status.message();
    const Status rules = library_rules(drawn);
    EXPECT_TRUE(rules.ok()) << rules.message();
    const LayerShape& shape = drawn.shape;
    EXPECT_NE(shape.hidden, shape.intermediate);
    EXPECT_NE(shape.hidden, shape.shared_intermediate);
    EXPECT_NE(shape.intermediate, shape.shared_intermediate);
    EXPECT_EQ(case_text(drawn), case_text(draw_case(5, number)));
    for (const std::int64_t tokens : drawn.tokens) {
      has_zero_tokens = has_zero_tokens || tokens == 0;
    }
    has_many_ranks = has_many_ranks || drawn.num_ranks() == 8;
    has_no_shared = has_no_shared || shape.shared_intermediate == 0;
    has_layers = has_layers || (drawn.layers > 1 && drawn.microbatches > 1);
  }
  EXPECT_TRUE(has_zero_tokens && has_many_ranks && has_no_shared && has_layers);
  EXPECT_NE(case_text(draw_case(5, 0)), case_text(draw_case(6, 0)));
}

}  // namespace
}  // namespace mok::cli
