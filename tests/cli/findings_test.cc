#include "tools/commands/run/findings.h"

#include <gtest/gtest.h>

#include <cstring>

#include "pager/base/units.h"

namespace weightpager::tools {
namespace {

using telemetry::Mark;
using telemetry::MarkKind;
using telemetry::MarkPlace;
using telemetry::Telemetry;

Mark mark(MarkKind kind, int32_t process_id, const char* subject = "", uint64_t amount = 0) {
  Mark it;
  it.kind = kind;
  it.process_id = process_id;
  it.amount = amount;
  strcpy(it.command, "engine");
  strcpy(it.subject, subject);
  return it;
}

class FindingsTest : public testing::Test {
 protected:
  std::vector<Finding> found() const { return findings(marks_, processes_, engine_, around_); }
  std::string first_cause() const { return found().empty() ? "" : found().front().cause; }
  void serve(int32_t process_id) {
    served_.process_id = process_id;
    processes_ = {&served_};
  }

  std::vector<Mark> marks_ = {mark(MarkKind::loaded, 10, "/bin/sh")};
  std::vector<const Telemetry*> processes_;
  std::string engine_ = "/engine";
  Surroundings around_ = {[](const Mark&) { return false; },
                          [](const std::string& program) {
                            ProgramFile file;
                            file.is_go = program == "/go";
                            if (program == "/static") file.preloading = Preloading::static_linked;
                            if (program == "/narrow") file.preloading = Preloading::narrow;
                            return file;
                          }};
  Telemetry served_;
};

TEST_F(FindingsTest, NoMarkAtAllMeansNotLoaded) {
  EXPECT_TRUE(found().empty());
  marks_.clear();
  EXPECT_EQ(first_cause(), "not_loaded");
}

TEST_F(FindingsTest, AnEngineThatNoLibraryGetsIntoIsNamedWithTheReason) {
  marks_.clear();
  engine_ = "/static";
  EXPECT_EQ(first_cause(), "static_program");
  EXPECT_EQ(found()[0].text, "/static is statically linked, so weightpager's library is not in it");
  engine_ = "/narrow";
  EXPECT_EQ(first_cause(), "other_program");
  marks_ = {mark(MarkKind::loaded, 10, "/bin/sh"), mark(MarkKind::cannot_load, 10, "/narrow", 1)};
  EXPECT_EQ(found()[0].text,
            "engine (pid 10) started /narrow, which is a 32-bit program, so weightpager's library "
            "is not in it");
}

TEST_F(FindingsTest, AStartThatGetsAModelTellsMoreThanALaterOne) {
  marks_.push_back(mark(MarkKind::cannot_load, 11, "/static", 1));
  marks_.push_back(mark(MarkKind::lost_environment, 12, "/other", 0));
  ASSERT_EQ(found().size(), 2u);
  EXPECT_EQ(found()[0].cause, "static_program");
  EXPECT_EQ(found()[1].cause, "environment_lost");
}

TEST_F(FindingsTest, WhatWasOpenedTellsMoreThanWhatWasStarted) {
  marks_.push_back(mark(MarkKind::cannot_load, 11, "/static", 1));
  marks_.push_back(mark(MarkKind::opened, 12, "/m.gguf", 10 * MiB));
  EXPECT_EQ(first_cause(), "model_not_mapped");
  marks_.push_back(mark(MarkKind::read, 12, "/m.gguf", 2 * MiB));
  EXPECT_EQ(first_cause(), "model_not_mapped");
  marks_.back().amount = 9 * MiB;
  EXPECT_EQ(first_cause(), "model_read");
  marks_.push_back(mark(MarkKind::hooked, 12, "/lib/alloc.so"));
  EXPECT_EQ(first_cause(), "mmap_taken");
  marks_.push_back(mark(MarkKind::paging, 12));
  EXPECT_EQ(first_cause(), "not_begun");
  marks_.push_back(mark(MarkKind::mapped_plain, 12, "", 10 * MiB));
  marks_.back().place = MarkPlace::fixed;
  EXPECT_EQ(first_cause(), "mapped_by_kernel");
}

TEST_F(FindingsTest, WhoRunsOnMayStillMap) {
  around_.is_running = [](const Mark& it) { return it.process_id == 12; };
  marks_.push_back(mark(MarkKind::forked, 12));
  marks_.push_back(mark(MarkKind::opened, 12, "/m.gguf", 10 * MiB));
  EXPECT_EQ(first_cause(), "still_running");
}

TEST_F(FindingsTest, GoCallsTheKernelItself) {
  marks_.push_back(mark(MarkKind::loaded, 12, "/go"));
  EXPECT_EQ(first_cause(), "own_system_calls");
}

TEST_F(FindingsTest, MemoryThatWasGotPastTheLibraryIsToldOfServedProcessesToo) {
  serve(10);
  around_.spilling = SpillScope::of_all;
  marks_.push_back(mark(MarkKind::unseen_memory, 10, "", 600 * MiB));
  marks_.push_back(mark(MarkKind::mapped_memory, 10, "", 300 * MiB));
  marks_.push_back(mark(MarkKind::deep_bound, 11, "/lib/deep.so"));
  ASSERT_EQ(found().size(), 3u);
  EXPECT_EQ(found()[0].cause, "own_memory");
  EXPECT_EQ(found()[0].text,
            "engine (pid 10) held 600.0 MiB of memory that it got by system calls of its own, "
            "neither by malloc nor by mmap: it is not served");
  EXPECT_EQ(found()[1].cause, "mapped_memory");
  EXPECT_EQ(
      found()[1].text,
      "engine (pid 10) held up to 300.0 MiB of memory that it asked mmap for, as allocators that "
      "are linked into an engine do: only blocks of malloc are served");
  EXPECT_EQ(found()[2].cause, "deep_bound");
}

TEST_F(FindingsTest, GosOwnMemoryIsToldOfThoughItsCLibrariesAreServed) {
  serve(12);
  around_.spilling = SpillScope::of_all;
  marks_.push_back(mark(MarkKind::loaded, 12, "/go"));
  served_.engine_bytes_max = 100 * MiB;
  EXPECT_TRUE(found().empty());
  served_.engine_bytes_max = 1 * GiB;
  EXPECT_EQ(first_cause(), "own_system_calls");
}

TEST_F(FindingsTest, WhatWasReadIsServedWithSpill) {
  marks_.push_back(mark(MarkKind::opened, 12, "/m.gguf", 10 * MiB));
  EXPECT_NE(found()[0].cure.find("give --spill DIR"), std::string::npos);
  around_.spilling = SpillScope::of_all;
  EXPECT_EQ(found()[0].cure.find("--spill"), std::string::npos);
  around_.spilling = SpillScope::none;
  around_.spill_lack = "/tmp lies in memory; name another folder";
  EXPECT_TRUE(found()[0].cure.ends_with(
      "what it reads is not served: /tmp lies in memory; name another folder"));
  around_.spill_lack = "";
  around_.spilling = SpillScope::of_readers;
  EXPECT_NE(found()[0].cure.find("give --spill DIR"), std::string::npos);
}

TEST_F(FindingsTest, OfAServedProcessOnlyWhatWasNotServedIsTold) {
  serve(10);
  marks_.push_back(mark(MarkKind::opened, 12, "/m.gguf", 10 * MiB));
  marks_.push_back(mark(MarkKind::lost_environment, 12, "/other", 1));
  EXPECT_TRUE(found().empty());
}

TEST_F(FindingsTest, ChildrenThatComputeAreCounted) {
  serve(10);
  for (int32_t child = 20; child < 25; ++child)
    marks_.push_back(mark(MarkKind::forked, child, "", 10));
  marks_.push_back(mark(MarkKind::forked, 30));                       // of an unserved process
  marks_.push_back(mark(MarkKind::child_started, 20));                // another program
  marks_.push_back(mark(MarkKind::child_touched, 21, "", 64 * KiB));  // none that computes
  marks_.push_back(mark(MarkKind::child_touched, 22, "", 10 * MiB));
  marks_.push_back(mark(MarkKind::child_touched, 23, "", 20 * MiB));  // 24 was killed
  ASSERT_EQ(found().size(), 1u);
  EXPECT_EQ(found()[0].cause, "forked_children");
  EXPECT_EQ(found()[0].process_id, 10);
  EXPECT_EQ(
      found()[0].text,
      "3 forked children had the weights outside the window, and touched about 30.0 MiB of them");
  EXPECT_EQ(finding_about(found(), served_) == nullptr, false);
}

}  // namespace
}  // namespace weightpager::tools
