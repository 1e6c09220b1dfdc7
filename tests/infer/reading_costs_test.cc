// What reads take from processors, told apart by pieces of two sizes.
#include "runtime/infer/reading_costs.h"

#include <gtest/gtest.h>

namespace weightpager::infer {
namespace {

TEST(TakenByReads, BytesAndReadsAreToldApart) {
  // 10 ns a byte and 1,000 ns a read.
  const TakenByReads taken = taken_by_reads({.bytes = 500, .reads = 4, .longer_ns = 9'000},
                                            {.bytes = 500, .reads = 20, .longer_ns = 25'000});
  EXPECT_DOUBLE_EQ(taken.ns_per_byte, 10);
  EXPECT_DOUBLE_EQ(taken.ns_per_read, 1'000);
}

TEST(TakenByReads, WithoutSmallerPiecesAllIsThatOfBytes) {
  const TakenByReads taken = taken_by_reads({.bytes = 500, .reads = 4, .longer_ns = 9'000},
                                            {.bytes = 500, .reads = 4, .longer_ns = 8'000});
  EXPECT_DOUBLE_EQ(taken.ns_per_byte, 18);
  EXPECT_EQ(taken.ns_per_read, 0);
}

TEST(TakenByReads, WhatCannotBeBecomesTheNearestThatCan) {
  const PassesBeside large = {.bytes = 500, .reads = 4, .longer_ns = 9'000};
  const TakenByReads less = taken_by_reads(large, {.bytes = 500, .reads = 20, .longer_ns = 5'000});
  EXPECT_DOUBLE_EQ(less.ns_per_byte, 18);
  EXPECT_EQ(less.ns_per_read, 0);
  const TakenByReads all = taken_by_reads(large, {.bytes = 500, .reads = 8, .longer_ns = 99'000});
  EXPECT_EQ(all.ns_per_byte, 0);
  EXPECT_DOUBLE_EQ(all.ns_per_read, 2'250);
  const TakenByReads none = taken_by_reads({.bytes = 500, .reads = 4, .longer_ns = -10},
                                           {.bytes = 500, .reads = 8, .longer_ns = 40});
  EXPECT_EQ(none.ns_per_byte, 0);
  EXPECT_EQ(none.ns_per_read, 0);
}

// Reads from 0 to 30 (two, overlapping) and from 50 to 60; kernels at 20 to 35 and, after a wait
// for the third read, at 60 to 80. Between two kernels whose weights are there, computing goes on.
struct OnePass {
  std::vector<pipeline::UnitBytes> units = {
      {.length_bytes = 4}, {.length_bytes = 6}, {}, {.length_bytes = 2}};
  pipeline::Timeline times{.start_ns = 10,
                           .finish_ns = 80,
                           .units = {{.read = {0, 20}, .copy = {}, .kernel = {20, 35}},
                                     {.read = {5, 30}, .copy = {}, .kernel = {36, 45}},
                                     {.read = {}, .copy = {}, .kernel = {47, 55}},
                                     {.read = {50, 60}, .copy = {}, .kernel = {60, 80}}}};
};

// A byte in 4 ns.
constexpr DiskLine slow_disk = {.bytes_per_s = 0.25e9, .latency_ns = 2};

TEST(BusyStretches, AreFromTheFirstReadUntilNoneIsUnderWay) {
  const OnePass it;
  const auto stretches = busy_stretches(it.times, it.units, slow_disk);
  ASSERT_EQ(stretches.size(), 2u);
  EXPECT_EQ(stretches[0].when, (pipeline::TimeSpan{0, 30}));
  EXPECT_EQ(stretches[0].bytes, 10u);
  EXPECT_EQ(stretches[1].when, (pipeline::TimeSpan{50, 60}));
  EXPECT_EQ(stretches[1].bytes, 2u);
}

TEST(BusyStretches, CountAsFarAsTheyLieBesideKernels) {
  const OnePass it;
  // Computing from 20 to 55 and from 60 on.
  EXPECT_EQ(beside_kernels_ns(busy_stretches(it.times, it.units, slow_disk), it.times), 10u + 5u);
}

TEST(BusyStretches, OfWhichTheEndWasSeenLateLastAsLongAsTheDiskTakes) {
  const OnePass it;
  const auto stretches =
      busy_stretches(it.times, it.units, {.bytes_per_s = 0.5e9, .latency_ns = 3});
  ASSERT_EQ(stretches.size(), 2u);
  EXPECT_EQ(stretches[0].when, (pipeline::TimeSpan{0, 3 + 2 * 10}));
  EXPECT_EQ(stretches[1].when, (pipeline::TimeSpan{50, 50 + 3 + 2 * 2}));
}

}  // namespace
}  // namespace weightpager::infer
