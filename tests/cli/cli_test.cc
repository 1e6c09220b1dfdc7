#include "tools/cli/cli.h"

#include <gtest/gtest.h>

namespace weightpager::tools {
namespace {

Command sample() {
  Command command;
  command.name = "weightpager sample";
  command.options = {{'w', "window", "SIZE", "a value"},
                     {0, "match", "GLOB", "a list"},
                     {'q', "quiet", "", "a flag\nof two lines"}};
  return command;
}

using Words = std::vector<std::string>;

TEST(Arguments, KeepValuesAsTheyWereWritten) {
  const auto parsed =
      parse_arguments(sample(), {"-w", "1.5GiB", "--match", "a,b", "--match=c=d", "operand", "-q"});
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->value("window"), "1.5GiB");
  EXPECT_EQ(parsed->values("match"), (Words{"a,b", "c=d"}));
  EXPECT_EQ(parsed->operands(), Words{"operand"});
  EXPECT_TRUE(parsed->has("quiet"));
  EXPECT_FALSE(parsed->has("help"));
}

TEST(Arguments, LastValueCounts) {
  const auto parsed = parse_arguments(sample(), {"--window", "1", "-w2", "--window", "-3"});
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->value("window"), "-3");
}

TEST(Arguments, EmptyValuesAreRefused) {
  for (const Words& words : {Words{"--window="}, Words{"--window", ""}}) {
    const auto parsed = parse_arguments(sample(), words);
    ASSERT_FALSE(parsed);
    EXPECT_TRUE(parsed.error().message.starts_with("--window '': expected "));
  }
}

TEST(Arguments, RefuseWhatTheTableDoesNotHave) {
  for (const char* argument : {"--windw=1", "--windw", "-x", "-1", "--quiet=false", "--window"}) {
    EXPECT_FALSE(parse_arguments(sample(), {argument})) << argument;
  }
  const auto misspelt = parse_arguments(sample(), {"--windw=1"});
  EXPECT_EQ(misspelt.error().message, "unknown option --windw");
  EXPECT_EQ(misspelt.error().hint,
            "did you mean --window? `weightpager sample --help` lists the options");
}

TEST(FirstOperand, SkipsOptionsAndTheirValues) {
  EXPECT_EQ(first_operand(sample(), {"-w", "1", "engine", "-q"}), 2u);
  EXPECT_EQ(first_operand(sample(), {"-w1", "engine"}), 1u);
  EXPECT_EQ(first_operand(sample(), {"--window=1", "-q", "engine"}), 2u);
  EXPECT_EQ(first_operand(sample(), {"--unknown", "engine"}), 1u);
  EXPECT_EQ(first_operand(sample(), {"--window"}), 1u);
  EXPECT_EQ(first_operand(sample(), {}), 0u);
}

TEST(Nearest, FindsSlipsButNothingFarAway) {
  const Words commands = {"run", "model", "doctor"};
  EXPECT_EQ(nearest("rnu", commands), "run");
  EXPECT_EQ(nearest("modle", commands), "model");
  EXPECT_EQ(nearest("docter", commands), "doctor");
  EXPECT_EQ(nearest("benchmark", commands), "");
  EXPECT_EQ(nearest("", commands), "");
}

TEST(ShellLine, QuotesWhatAShellWouldTakeApart) {
  EXPECT_EQ(shell_line({"a-b", "two words", "", "it's", "*.gguf"}),
            "a-b 'two words' '' 'it'\\''s' '*.gguf'");
}

TEST(Help, AlignsDescriptionsAndLeavesOutEmptyParts) {
  EXPECT_EQ(help_text(sample()),
            "Options:\n"
            "  -w, --window SIZE  a value\n"
            "      --match GLOB   a list\n"
            "  -q, --quiet        a flag\n"
            "                     of two lines\n"
            "  -h, --help         show this help\n");
}

}  // namespace
}  // namespace weightpager::tools
