#include "tools/commands/run/summary.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <nlohmann/json.hpp>
#include <sstream>

#include "pager/base/units.h"
#include "pager/policy/named/make_policy.h"
#include "tools/arguments/model_arguments.h"
#include "tools/commands/run/report_json.h"

namespace weightpager::tools {
namespace {

using telemetry::Telemetry;

/// A run of ten seconds that reads all the time and stalls for half of it.
void fill_bound_by_reading(Telemetry& process) {
  process.process_id = 1234;
  strcpy(process.command, "llama-cli");
  strcpy(process.mapper, "move");
  process.window_bytes = 1 * GiB;
  process.chunk_bytes = 2 * MiB;
  process.resident_bytes_max = 1 * GiB;
  process.model_bytes = 4 * GiB;
  process.models = 1;
  process.engine_bytes_max = 512 * MiB;
  process.faults_demand = 12;
  process.faults_late = 340;
  process.prefetch_hidden = 5678;
  process.evictions = 6000;
  process.read_bytes = 20 * GiB;
  process.read_busy_ns = 10 * second_ns;
  process.started_ns = 100 * second_ns;
  process.last_event_ns = 110 * second_ns;
  process.stall_ns = 5 * second_ns;
}

class SummaryTest : public testing::Test {
 protected:
  SummaryTest() {
    fill_bound_by_reading(process_);
    report_.memory_limit = {16 * GiB, "a test"};
    report_.processes = {&process_};
  }

  std::string advice_text() const { return advice(process_, report_.memory_limit.bytes); }

  Telemetry process_;
  RunReport report_;
};

TEST_F(SummaryTest, HasAllNumbers) {
  EXPECT_EQ(summary_text(report_),
            "weightpager: llama-cli (pid 1234), window 1.0 GiB, mapper move\n"
            "  memory    peak 1.0 GiB of the model's 4.0 GiB; engine's own 512.0 MiB\n"
            "  faults    12 demand, 340 late, 5678 hidden by prefetch\n"
            "  read      20.0 GiB at 2.0 GiB/s, 5.0 times the model\n"
            "  stalled   50% of 10.0 s\n"
            "  advice    the disk is the bound: a window of 2.5 GiB would halve the reading\n");
}

TEST_F(SummaryTest, TellsWhereTheEnginesOwnMemoryCameFromAndWentTo) {
  report_.options.spilling = SpillScope::of_all;
  process_.mapped_file_bytes = 1 * GiB;
  process_.block_bytes_max = 3 * GiB;
  process_.lazy_read_bytes = 2 * GiB;
  process_.spill_written_bytes = 512 * MiB;
  process_.spill_read_bytes = 4 * GiB;
  const std::string text = summary_text(report_);
  EXPECT_NE(
      text.find("  mapped    1.0 GiB of files\n"
                "  spilled   3.0 GiB of blocks at most; read lazily 2.0 GiB; written 512.0 MiB,\n"
                "            read back 4.0 GiB\n"),
      std::string::npos)
      << text;
}

TEST_F(SummaryTest, TellsWhatAnEarlierRunHasSaved) {
  report_.options.spilling = SpillScope::of_all;
  EXPECT_EQ(summary_text(report_).find("  copies "), std::string::npos);
  report_.options.kept_folder = "/var/tmp/kept";
  process_.spill_found_bytes = 494 * MiB;
  process_.spill_kept_bytes = 2 * MiB;
  const std::string text = summary_text(report_);
  EXPECT_NE(
      text.find("  copies    494.0 MiB found, not written again; 2.0 MiB kept for the next run\n"),
      std::string::npos)
      << text;
}

TEST_F(SummaryTest, TellsOfMemoryThatNobodyServed) {
  report_.processes.clear();
  report_.findings = {{"static_program", 0, "", "/x is statically linked", "use another build"}};
  EXPECT_EQ(summary_text(report_),
            "weightpager: no model was mapped: /x is statically linked; use another build\n");
  report_.largest_process_bytes = 2 * GiB;
  EXPECT_EQ(
      summary_text(report_),
      "weightpager: no model was mapped: /x is statically linked; use another build; 2.0 GiB of "
      "memory were held outside any window\n");
}

TEST_F(SummaryTest, FitsEightLinesOf80AsciiColumnsAtWorst) {
  memset(process_.command, 'c', sizeof(process_.command) - 1);
  memset(process_.profile, 'p', sizeof(process_.profile) - 1);
  process_.command[3] = '\xc3';
  process_.process_id = 4194304;  // the kernel's highest
  process_.window_bytes = process_.resident_bytes_max = process_.model_bytes = 1023 * GiB;
  process_.engine_bytes_max = 1023 * GiB;
  const std::string text = summary_text(report_);
  EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 8) << text;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
  EXPECT_TRUE(std::all_of(text.begin(), text.end(), [](char letter) {
    return letter == '\n' || (letter >= ' ' && letter <= '~');
  })) << text;
}

TEST_F(SummaryTest, HasABlockForEachProcess) {
  Telemetry other;
  fill_bound_by_reading(other);
  strcpy(other.command, "second");
  report_.processes.push_back(&other);
  const std::string text = summary_text(report_);
  EXPECT_NE(text.find("weightpager: llama-cli (pid"), std::string::npos);
  EXPECT_NE(text.find("weightpager: second (pid"), std::string::npos);
}

TEST_F(SummaryTest, SaysWhatAProfileDid) {
  strcpy(process_.profile, "ggml: weights stay where they are");
  EXPECT_NE(summary_text(report_).find("  profile   ggml: weights stay where they are\n"),
            std::string::npos);
}

TEST_F(SummaryTest, SaysWhichPolicyTookOver) {
  process_.policy = policy::policy_number("lru");
  process_.former_policy = policy::policy_number("expert");
  process_.policy_changes = 1;
  process_.policy_changed_ns = 103 * second_ns;
  process_.former_wait_ns = 400'000;
  EXPECT_NE(summary_text(report_).find(
                "  policy    lru took over from expert after 3.0 s, not proved yet\n"),
            std::string::npos);
  process_.wait_ns = 100'000;
  EXPECT_NE(summary_text(report_).find(
                "lru took over from expert after 3.0 s, waits 0.25 times as long\n"),
            std::string::npos);
  process_.policy = policy::policy_number("expert");
  process_.former_policy = policy::policy_number("");
  EXPECT_NE(summary_text(report_).find(
                "  policy    expert again, another looked better on paper and was not\n"),
            std::string::npos);
}

TEST_F(SummaryTest, HoldsWhatAMixtureReadAgainstWhatWasMissing) {
  EXPECT_EQ(summary_text(report_).find("  experts "), std::string::npos);
  process_.expert_uses = 1627;
  process_.expert_misses = 811;
  process_.expert_missing_bytes = 15 * GiB;
  process_.passes = 40;
  EXPECT_NE(summary_text(report_).find(
                "  experts   1627 uses, 811 misses; read per pass 512.0 MiB, missing 384.0 MiB\n"),
            std::string::npos);
}

TEST_F(SummaryTest, NamesThePatternsWhenNoModelWasMapped) {
  report_.processes.clear();
  report_.options.match = {"*.weights"};
  EXPECT_EQ(summary_text(report_),
            fmt::format("weightpager: no model was mapped; looked for {} (see --match)\n",
                        fmt::join(model_patterns({"*.weights"}), " ")));
}

TEST_F(SummaryTest, NamesTheReasonWhenNoModelWasMapped) {
  report_.processes.clear();
  report_.findings = {{"model_read", 7, "cat", "cat (pid 7) read it", "map it"}};
  EXPECT_EQ(summary_text(report_),
            "weightpager: no model was mapped: cat (pid 7) read it; map it\n");
}

TEST_F(SummaryTest, WhatWasNotServedComesBeforeAdvice) {
  report_.findings = {{"forked_children", 1234, "llama-cli", "2 children", "serve them"},
                      {"still_running", 7, "cat", "cat runs on", "wait"}};
  const std::string text = summary_text(report_);
  EXPECT_NE(text.find("  advice    2 children; serve them\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\nweightpager: cat runs on; wait\n"), std::string::npos) << text;
  const auto json = nlohmann::json::parse(report_json(report_));
  EXPECT_EQ(json["processes"][0]["advice"], "2 children; serve them");
  EXPECT_EQ(json["findings"][1]["cause"], "still_running");
  EXPECT_EQ(json["findings"][1]["process_id"], 7);
}

TEST_F(SummaryTest, AnUntouchedModelHasNotFitted) {
  process_.evictions = process_.faults_demand = process_.faults_late = 0;
  EXPECT_EQ(advice_text(), "no touch of the model was seen in this process");
}

TEST_F(SummaryTest, WithoutABeginningNoTimePassed) {
  process_.started_ns = 0;
  EXPECT_EQ(ratios(process_).elapsed_ns, 0u);
  EXPECT_EQ(ratios(process_).stall_share, 0);
}

TEST_F(SummaryTest, RatiosOfNothingAreZero) {
  const Telemetry nothing;
  const Ratios ratio = ratios(nothing);
  EXPECT_EQ(ratio.elapsed_ns, 0u);
  EXPECT_EQ(ratio.stall_share, 0);
  EXPECT_EQ(ratio.read_bytes_per_second, 0);
  EXPECT_EQ(ratio.read_model_multiple, 0);
}

TEST_F(SummaryTest, TimeEndsWithTheProcessIfItEndedInOrder) {
  process_.ended_ns = 120 * second_ns;
  EXPECT_EQ(ratios(process_).elapsed_ns, 20 * second_ns);
  EXPECT_EQ(ratios(process_).stall_share, 0.25);
}

TEST_F(SummaryTest, AdvisesTheWindowThatHalvesTheReading) {
  EXPECT_EQ(advice_text(), "the disk is the bound: a window of 2.5 GiB would halve the reading");
}

TEST_F(SummaryTest, TheRingKeepsNothing) {
  process_.ring_bytes = 512 * MiB;
  EXPECT_EQ(advice_text(), "the disk is the bound: a window of 2.8 GiB would halve the reading");
}

TEST_F(SummaryTest, AdvisesNoWindowThatMemoryCannotHold) {
  report_.memory_limit.bytes = 2 * GiB;
  EXPECT_EQ(advice_text(),
            "the disk is the bound and memory too small for a better window: "
            "a faster disk or smaller weights would help");
}

TEST_F(SummaryTest, AdvisesASmallerWindowWhenAllFitted) {
  process_.evictions = 0;
  process_.resident_bytes_max = 512 * MiB;
  EXPECT_EQ(advice_text(), "everything fitted: a window of 512.0 MiB would do as well");
  process_.resident_bytes_max = 1000 * MiB;
  EXPECT_EQ(advice_text(), "everything fitted into the window");
}

TEST_F(SummaryTest, ReportsAnEngineThatCopiedItsWeights) {
  process_.engine_bytes_max = 2 * GiB;
  EXPECT_EQ(advice_text(),
            "the engine holds a copy of its weights outside the window (2.0 GiB): "
            "--spill DIR pages it; without --no-profile llama.cpp makes none");
  strcpy(process_.profile, "ggml: asked for no copy");
  EXPECT_EQ(advice_text(),
            "the engine holds a copy of its weights outside the window (2.0 GiB): "
            "--spill DIR pages it");
}

TEST_F(SummaryTest, WhatIsServedIsNoCopyOutsideTheWindow) {
  process_.block_bytes_max = 304 * MiB;
  process_.engine_bytes_max = 2 * GiB;
  process_.evictions = 0;
  process_.resident_bytes_max = 1000 * MiB;
  EXPECT_EQ(advice_text(), "everything fitted into the window");
}

TEST_F(SummaryTest, ReportsReadErrorsBeforeAllElse) {
  process_.read_errors = 3;
  process_.engine_bytes_max = 4 * GiB;
  EXPECT_EQ(advice_text(), "3 reads of the model failed: the lines above name file and offset");
}

TEST_F(SummaryTest, LeavesAWellHiddenRunAlone) {
  process_.stall_ns = second_ns / 10;
  EXPECT_EQ(advice_text(),
            "reading hides behind the computation: a larger window would gain little");
}

TEST_F(SummaryTest, DoesNotJudgeTheFirstPass) {
  process_.read_bytes = 4 * GiB;
  EXPECT_EQ(advice_text(), "this was the first reading of the model: a longer run tells more");
}

TEST_F(SummaryTest, TellsWaitingForTheDiskFromPoorForesight) {
  process_.faults_demand = 2000;  // of 10240 chunks
  EXPECT_EQ(advice_text(),
            "the engine touches its weights in an order that is hard to foresee: "
            "a larger window would help");
}

TEST_F(SummaryTest, BlamesNoDiskThatRests) {
  process_.read_busy_ns = 4 * second_ns;
  EXPECT_EQ(advice_text(),
            "the engine waits, though the disk reads for only 40% of the time: "
            "`weightpager trace record` shows why");
  process_.read_busy_ns = 7 * second_ns;
  EXPECT_EQ(advice_text(), "the disk is the bound: a window of 2.5 GiB would halve the reading");
}

TEST_F(SummaryTest, JudgesAMixtureByTheExpertsThatStayed) {
  process_.faults_demand = 2000;
  process_.expert_uses = 400;
  process_.expert_misses = 100;
  EXPECT_EQ(advice_text(),
            "25% of the experts that were used were not in the window: "
            "a larger one would keep more of them");
}

TEST_F(SummaryTest, NamesAPolicyThatIsNotTheDefault) {
  process_.policy = policy::policy_number("expert");
  EXPECT_EQ(summary_text(report_).find("policy"), std::string::npos);
  process_.policy = policy::policy_number("ring");
  EXPECT_NE(summary_text(report_).find("mapper move, policy ring\n"), std::string::npos);
}

TEST_F(SummaryTest, JsonHasCountersRatiosAndConfiguration) {
  report_.options.engine = {"llama-cli", "\xff.gguf"};
  report_.window_bytes = 1 * GiB;
  report_.exit = {0, 15};
  const auto json = nlohmann::json::parse(report_json(report_));
  EXPECT_EQ(json["schema_version"], 1);
  EXPECT_EQ(json["exit"], nlohmann::json({{"status", nullptr}, {"signal", 15}}));
  EXPECT_EQ(json["config"]["window_bytes"], 1 * GiB);
  EXPECT_EQ(json["config"]["engine"][1], "\xef\xbf\xbd.gguf");
  ASSERT_EQ(json["processes"].size(), 1u);
  const auto& process = json["processes"][0];
  EXPECT_EQ(process["command"], "llama-cli");
  const size_t counters = (offsetof(Telemetry, cursor_chunk) - offsetof(Telemetry, policy)) /
                          sizeof(telemetry::Counter);
  const size_t names = 5, derived = 7;
  EXPECT_EQ(process.size(), names + counters + derived) << "a counter is missing in the report";
  EXPECT_EQ(process["faults_late"], 340);
  EXPECT_EQ(process["read_bytes"], 20 * GiB);
  EXPECT_EQ(process["stall_share"], 0.5);
  EXPECT_EQ(process["read_model_multiple"], 5.0);
  EXPECT_EQ(process["advice"], advice_text());
}

}  // namespace
}  // namespace weightpager::tools
