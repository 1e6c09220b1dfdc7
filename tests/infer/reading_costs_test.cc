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

TEST(BusyStretches, AreFromTheFirstReadUntilNoneIsUnderWay) {
  const OnePass it;
  const auto stretches = busy_stretches(it.times, it.units);
  ASSERT_EQ(stretches.size(), 2u);
  EXPECT_EQ(stretches[0].when, (pipeline::Span{0, 30}));
  EXPECT_EQ(stretches[0].bytes, 10u);
  EXPECT_EQ(stretches[1].when, (pipeline::Span{50, 60}));
  EXPECT_EQ(stretches[1].bytes, 2u);
}

TEST(BusyStretches, CountAsFarAsTheyLieBesideKernels) {
  const OnePass it;
  // Computing from 20 to 55 and from 60 on.
  EXPECT_EQ(beside_kernels_ns(busy_stretches(it.times, it.units), it.times), 10u + 5u);
}

std::vector<BusyStretch> stretches_on(double latency_ns, double ns_per_byte,
                                      const std::vector<uint64_t>& bytes) {
  std::vector<BusyStretch> stretches;
  for (const uint64_t it : bytes) {
    const double took_ns = latency_ns + ns_per_byte * static_cast<double>(it);
    stretches.push_back({{1'000, 1'000 + static_cast<uint64_t>(took_ns)}, it});
  }
  return stretches;
}

TEST(FitDisk, FindsTheLineThatStretchesLieOn) {
  const DiskLine line = fit_disk(stretches_on(100'000, 0.5, {1 << 20, 2 << 20, 40 << 20, 2 << 20}));
  EXPECT_NEAR(line.bytes_per_s, 2e9, 1e3);
  EXPECT_NEAR(line.latency_ns, 100'000, 1);
}

TEST(FitDisk, StretchesThatAreAlikeHaveNoLatency) {
  const DiskLine line = fit_disk(stretches_on(500'000, 0.5, {2'000'000, 2'000'000}));
  EXPECT_EQ(line.latency_ns, 0);
  EXPECT_DOUBLE_EQ(line.bytes_per_s, 2e6 / 1.5e6 * 1e9);
}

TEST(FitDisk, WhatCannotBeIsLeftOut) {
  // Twice the bytes in four times the time: as if the first ones took less than none.
  const BusyStretch less_than_none[] = {{{0, 1'000'000}, 2'000'000}, {{0, 4'000'000}, 4'000'000}};
  EXPECT_EQ(fit_disk(less_than_none).latency_ns, 0);
  EXPECT_DOUBLE_EQ(fit_disk(less_than_none).bytes_per_s, 1.2e9);
  const BusyStretch faster[] = {{{0, 4'000'000}, 2'000'000}, {{0, 1'000'000}, 4'000'000}};
  EXPECT_EQ(fit_disk(faster).latency_ns, 0);
  EXPECT_DOUBLE_EQ(fit_disk(faster).bytes_per_s, 1.2e9);
}

}  // namespace
}  // namespace weightpager::infer
