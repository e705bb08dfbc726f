// flags_test.cpp: from the words of the command line to flags, and what is refused there.
#include "cli/flags.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace mok::cli {
namespace {

using Words = std::vector<std::string>;

TEST(CommandLine, KeepsFlagsAsText) {
  const Result<CommandLine> line = parse_command_line(
      {"run", "--hidden", "64", "--tokens=1,2", "--json", "--swiglu-limit", "-1"});
  ASSERT_TRUE(line.has_value()) << line.error().message();
  EXPECT_EQ(line->command, "run");
  EXPECT_EQ(*line->flags.find("--hidden"), "64");
  EXPECT_EQ(*line->flags.find("--tokens"), "1,2");
  EXPECT_EQ(*line->flags.find("--swiglu-limit"), "-1");
  EXPECT_TRUE(line->flags.given("--json"));
  EXPECT_FALSE(line->flags.given("--output-gate"));
  EXPECT_FALSE(line->text.has_value());
}

TEST(CommandLine, HelpAndVersionAreTexts) {
  const Result<CommandLine> version = parse_command_line({"--version"});
  ASSERT_TRUE(version.has_value() && version->text.has_value());
  EXPECT_EQ(version->text->substr(0, 4), "mok ");
  const Result<CommandLine> help = parse_command_line({"run", "--help"});
  ASSERT_TRUE(help.has_value() && help->text.has_value());
  EXPECT_NE(help->text->find("--progress-deadline-ms"), std::string::npos);
}

struct Refusal {
  Words words;
  std::string argument;
  std::string value;
  std::string in_rule;
};

TEST(CommandLine, NamesTheArgumentItsValueAndTheNearest) {
  const std::vector<Refusal> refusals = {
      {{"run", "--hiden", "64"}, "--hiden", "64", "nearest is --hidden"},
      {{"run", "--hiden=64"}, "--hiden", "64", "nearest is --hidden"},
      {{"run", "--jsn"}, "--jsn", "", "nearest is --json"},
      {{"verify", "--case", "3"}, "--case", "3", "nearest is --cases"},
      {{"doctor", "--cases", "3"}, "--cases", "3", "doctor"},
      {{"rum"}, "command", "rum", "nearest is run"},
      {{"--verson"}, "--verson", "", "nearest is --version"},
      {{}, "command", "none", "run, verify or doctor"},
      {{"run", "extra"}, "extra", "", "not a flag"},
      {{"run", "--hidden"}, "--hidden", "''", "needs a value"},
      {{"run", "--hidden", "--json"}, "--hidden", "--json", "needs a value"},
      {{"run", "--hidden", "8", "--hidden", "16"}, "--hidden", "2 times", "once"},
  };
  for (const Refusal& refusal : refusals) {
    const Result<CommandLine> line = parse_command_line(refusal.words);
    std::string words;
    for (const std::string& word : refusal.words) {
      words += word + " ";
    }
    ASSERT_FALSE(line.has_value()) << words;
    EXPECT_EQ(line.error().code(), Code::kBadArgument) << words;
    EXPECT_EQ(line.error().argument(), refusal.argument) << words;
    EXPECT_EQ(line.error().value(), refusal.value) << words;
    EXPECT_NE(line.error().rule().find(refusal.in_rule), std::string::npos)
        << words << ": " << line.error().rule();
  }
}

}  // namespace
}  // namespace mok::cli
