// The chunk table keeps its counts under any legal sequence of transitions.
#include "pager/window/chunk_table.h"

#include <gtest/gtest.h>

#include <random>

namespace weightpager::window {
namespace {

TEST(ChunkTable, FollowsAChunkThroughItsLife) {
  ChunkTable table(2);
  const ChunkId chunk = table.add_chunks(3);
  table.add_slot(5);
  EXPECT_EQ(table.room(), 1u);
  EXPECT_EQ(table.start_read(chunk), 5u);
  EXPECT_EQ(table.room(), 0u);
  table.finish_read(chunk);
  table.map(chunk, true);
  EXPECT_EQ(table.state(chunk), ChunkState::mapped);
  EXPECT_EQ(table.slot(chunk), 5u);
  table.hold(chunk);
  EXPECT_EQ(table.state(chunk), ChunkState::ready);
  table.release(chunk);
  EXPECT_EQ(table.state(chunk), ChunkState::absent);
  EXPECT_EQ(table.free_slots(), 1u);
}

TEST(ChunkTable, AMapThatCopiesGivesTheSlotBackButCountsAgainstTheWindow) {
  ChunkTable table(1);
  const ChunkId chunk = table.add_chunks(2);
  table.add_slot(0);
  table.start_read(chunk);
  table.finish_read(chunk);
  table.map(chunk, false);
  EXPECT_EQ(table.free_slots(), 1u);
  EXPECT_EQ(table.room(), 0u);
}

TEST(ChunkTable, NeighboursLieSideBySideWhereTheyCan) {
  ChunkTable table(12);
  table.add_chunks(100);
  for (SlotId slot = 0; slot < 12; ++slot) table.add_slot(slot);
  EXPECT_EQ(table.start_read(10), 0u);
  EXPECT_EQ(table.start_read(11), 1u);
  EXPECT_EQ(table.start_read(60), 2u);
  EXPECT_EQ(table.start_read(12), 3u) << "slot 2 is taken, and slots 3 to 11 are what there is";
  EXPECT_EQ(table.start_read(13), 4u);
  table.finish_read(60);
  table.release(60);
  EXPECT_EQ(table.start_read(99), 2u) << "nothing follows it: the shortest run will do";
  EXPECT_EQ(table.start_read(15), 6u) << "slot 5 is left for chunk 14";
  EXPECT_EQ(table.start_read(14), 5u);
}

TEST(ChunkTable, WhatIsReadBeforeItsNeighboursLeavesThemRoom) {
  ChunkTable table(12);
  table.add_chunks(100);
  for (SlotId slot = 20; slot < 32; ++slot) table.add_slot(slot);
  // Two threads begin at the beginning and in the middle; then comes the rest.
  EXPECT_EQ(table.start_read(40), 20u);
  EXPECT_EQ(table.start_read(46), 26u);
  EXPECT_EQ(table.start_read(45), 25u) << "before the chunk behind it";
  EXPECT_EQ(table.start_read(41), 21u);
  EXPECT_EQ(table.start_read(43), 23u);
}

TEST(ChunkTableDeathTest, RefusesImpossibleTransitions) {
  ChunkTable table(1);
  const ChunkId chunk = table.add_chunks(1);
  EXPECT_DEATH(table.start_read(chunk), "internal check failed");
  EXPECT_DEATH(table.map(chunk, true), "internal check failed");
  EXPECT_DEATH(table.release(chunk), "internal check failed");
}

TEST(ChunkTable, CountsStayTrueUnderRandomTransitions) {
  constexpr uint32_t chunks = 50;
  ChunkTable table(20);
  table.add_chunks(chunks);
  for (SlotId slot = 0; slot < 12; ++slot) table.add_slot(slot);
  std::mt19937 random(3);
  for (int step = 0; step < 20000; ++step) {
    const ChunkId chunk = random() % chunks;
    switch (table.state(chunk)) {
      case ChunkState::absent:
        if (table.room() > 0) table.start_read(chunk);
        break;
      case ChunkState::reading:
        random() % 8 == 0 ? table.fail(chunk) : table.finish_read(chunk);
        break;
      case ChunkState::ready:
        random() % 2 == 0 ? table.map(chunk, random() % 2 == 0) : table.release(chunk);
        break;
      case ChunkState::mapped:
        table.slot(chunk) != no_slot&& random() % 2 == 0 ? table.hold(chunk) : table.release(chunk);
        break;
      case ChunkState::failed:
        table.forget_failure(chunk);
        break;
    }
    uint32_t resident = 0;
    uint32_t reading = 0;
    uint32_t slots = table.free_slots();
    for (ChunkId c = 0; c < chunks; ++c) {
      resident += table.is_resident(c);
      reading += table.state(c) == ChunkState::reading;
      slots += table.slot(c) != no_slot;
    }
    ASSERT_EQ(table.resident(), resident);
    ASSERT_EQ(table.reading(), reading);
    ASSERT_EQ(slots, 12u);
  }
}

}  // namespace
}  // namespace weightpager::window
