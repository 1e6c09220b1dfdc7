// What is handled as one.
#include "pager/window/run.h"

#include <gtest/gtest.h>

namespace weightpager::window {
namespace {

TEST(Run, GrowsByTheNextChunkUpToItsLimit) {
  EXPECT_TRUE(comes_next({5, 2}, 7, 4));
  EXPECT_FALSE(comes_next({5, 2}, 8, 4));
  EXPECT_FALSE(comes_next({5, 2}, 6, 4));
  EXPECT_FALSE(comes_next({5, 4}, 9, 4));
  EXPECT_FALSE(comes_next({5, 0}, 5, 4)) << "an empty one has no place yet";
}

TEST(Run, IsLimitedByBytes) {
  EXPECT_EQ(chunks_together(512 * KiB, 128 * KiB), 4u);
  EXPECT_EQ(chunks_together(512 * KiB, 512 * KiB), 1u);
  EXPECT_EQ(chunks_together(512 * KiB, 2 * MiB), 1u);
}

// Chunks 0 to 3 lie in slots 0 to 3; 4 and 5 follow in slots 9 and 10.
TEST(Run, GoesTogetherAsFarAsSlotsLieTogether) {
  ChunkTable table(16);
  table.add_chunks(6);
  for (SlotId slot = 0; slot < 4; ++slot) table.add_slot(slot);
  for (ChunkId chunk = 0; chunk < 4; ++chunk) ASSERT_EQ(table.start_read(chunk), chunk);
  table.add_slot(9);
  table.add_slot(10);
  ASSERT_EQ(table.start_read(4), 9u);
  ASSERT_EQ(table.start_read(5), 10u);
  const auto anyone = [](ChunkId) { return true; };
  EXPECT_EQ(count_together(table, {0, 6}, anyone), 4u);
  EXPECT_EQ(count_together(table, {4, 2}, anyone), 2u);
  EXPECT_EQ(count_together(table, {3, 3}, anyone), 1u);
  EXPECT_EQ(count_together(table, {0, 6}, [](ChunkId chunk) { return chunk != 2; }), 2u);
  EXPECT_EQ(count_together(table, {2, 4}, [](ChunkId chunk) { return chunk != 2; }), 1u);
}

}  // namespace
}  // namespace weightpager::window
