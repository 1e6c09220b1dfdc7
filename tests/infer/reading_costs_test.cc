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

}  // namespace
}  // namespace weightpager::infer
