// The chunk table keeps its counts under any legal sequence of transitions.
#include "pager/window/chunk_table.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

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
  table.hide(chunk);
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

// Chunks 0 to 19 mapped, chunk 0 in slot 0 and so on, but for some that were released.
ChunkTable mapped_table(std::initializer_list<ChunkId> released) {
  ChunkTable table(20);
  table.add_chunks(40);
  for (SlotId slot = 0; slot < 20; ++slot) table.add_slot(slot);
  for (ChunkId chunk = 0; chunk < 20; ++chunk) {
    table.start_read(chunk);
    table.finish_read(chunk);
    table.map(chunk, true);
  }
  for (ChunkId chunk : released) table.release(chunk);
  return table;
}

TEST(ChunkTable, WhatLeavesTogetherGoesToWhereSlotsAreFree) {
  ChunkTable table = mapped_table({4, 5});
  EXPECT_EQ(table.bring_together(12, 3), 3u);
  EXPECT_EQ(table.slot(12), 6u) << "behind the free ones";
  EXPECT_EQ(table.slot(14), 8u);
  EXPECT_EQ(table.slot(6), 12u) << "in exchange";
  for (ChunkId chunk = 12; chunk < 15; ++chunk) table.release(chunk);
  EXPECT_EQ(table.start_read(30), 4u);
  for (ChunkId chunk = 31; chunk < 35; ++chunk) EXPECT_EQ(table.start_read(chunk), chunk - 26);
}

TEST(ChunkTable, WhereNothingIsBehindTheFreeSlotsItGoesBeforeThem) {
  ChunkTable table = mapped_table({18, 19});
  EXPECT_EQ(table.bring_together(3, 2), 2u);
  EXPECT_EQ(table.slot(3), 16u);
}

TEST(ChunkTable, SlotsOfChunksThatAreNotMappedAreNotExchanged) {
  ChunkTable table = mapped_table({4});
  table.hide(3);
  table.hide(5);
  EXPECT_EQ(table.bring_together(12, 3), 3u) << "they lie side by side as it is";
  EXPECT_EQ(table.slot(12), 12u);
  table.hide(13);
  table.map(13, true);
  EXPECT_EQ(table.slot(5), 5u);
}

TEST(ChunkTable, WithoutAFreeSlotThoseGoTogetherThatLieTogether) {
  ChunkTable table = mapped_table({4, 8});
  table.start_read(20);
  table.start_read(30);
  EXPECT_EQ(table.free_slots(), 0u);
  EXPECT_EQ(table.bring_together(5, 3), 3u);
  EXPECT_EQ(table.bring_together(19, 1), 1u);
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
        switch (random() % 4) {
          case 0:
            table.release(chunk);
            break;
          case 1:
            table.begin_leaving(chunk);
            break;
          default:
            table.map(chunk, random() % 2 == 0);
        }
        break;
      case ChunkState::leaving:
        random() % 2 == 0 ? table.stay(chunk) : table.release(chunk);
        break;
      case ChunkState::mapped:
        if (table.slot(chunk) != no_slot && random() % 2 == 0) table.bring_together(chunk, 1);
        table.slot(chunk) != no_slot&& random() % 2 == 0 ? table.hide(chunk) : table.release(chunk);
        break;
      case ChunkState::failed:
        table.forget_failure(chunk);
        break;
    }
    uint32_t resident = 0;
    uint32_t reading = 0;
    uint32_t leaving = 0;
    uint32_t slots = table.free_slots();
    std::set<SlotId> held;
    for (ChunkId c = 0; c < chunks; ++c) {
      if (table.slot(c) != no_slot) {
        ASSERT_TRUE(held.insert(table.slot(c)).second);
      }
      resident += table.is_resident(c);
      reading += table.state(c) == ChunkState::reading;
      leaving += table.state(c) == ChunkState::leaving;
      slots += table.slot(c) != no_slot;
    }
    ASSERT_EQ(table.resident(), resident);
    ASSERT_EQ(table.reading(), reading);
    ASSERT_EQ(table.leaving(), leaving);
    ASSERT_EQ(slots, 12u);
  }
}

}  // namespace
}  // namespace weightpager::window
