// The clock: what is used stays for another round.
#include "pager/policy/second_chance.h"

#include <gtest/gtest.h>

#include <vector>

namespace weightpager::policy::second_chance_test {
namespace {

using Standing = SecondChance::Standing;

constexpr uint32_t chunks = 10;
const auto idle = [](ChunkId) { return Standing::idle; };
const auto yes = [](ChunkId) { return true; };
const auto no = [](ChunkId) { return false; };

SecondChance clock_of(const std::vector<ChunkId>& members) {
  SecondChance clock;
  clock.reset(chunks);
  for (ChunkId chunk : members) clock.add(chunk);
  return clock;
}

TEST(SecondChance, WhatWasNotTouchedGoesFirst) {
  SecondChance clock = clock_of({3, 4, 5});
  clock.note_touch(3);
  const SecondChance::Finding found = clock.turn(idle, yes);
  EXPECT_EQ(found.chunk, 3u);
  EXPECT_TRUE(found.is_to_be_hidden);
  const SecondChance::Finding gone = clock.turn(idle, yes);
  EXPECT_EQ(gone.chunk, 4u);
  EXPECT_FALSE(gone.is_to_be_hidden);
  EXPECT_FALSE(clock.contains(4));
  EXPECT_TRUE(clock.contains(3));
}

TEST(SecondChance, WhatIsTouchedAgainStaysAgain) {
  SecondChance clock = clock_of({3});
  for (int round = 0; round < 3; ++round) {
    clock.note_touch(3);
    EXPECT_TRUE(clock.turn(idle, yes).is_to_be_hidden);
  }
  EXPECT_FALSE(clock.turn(idle, yes).is_to_be_hidden);
  EXPECT_TRUE(clock.is_empty());
}

TEST(SecondChance, WhatCannotBeHeldGoesInTheSecondRound) {
  SecondChance clock = clock_of({3, 4});
  clock.note_touch(3);
  clock.note_touch(4);
  EXPECT_EQ(clock.turn(idle, no).chunk, 3u);
  EXPECT_EQ(clock.size(), 1u);
}

TEST(SecondChance, BusyChunksArePassedOverAndNeededOnesLeave) {
  SecondChance clock = clock_of({1, 2, 3});
  const auto standing = [](ChunkId chunk) {
    return chunk == 1 ? Standing::busy : chunk == 2 ? Standing::needed : Standing::idle;
  };
  EXPECT_EQ(clock.turn(standing, yes).chunk, 3u);
  EXPECT_TRUE(clock.contains(1));
  EXPECT_FALSE(clock.contains(2));
  EXPECT_EQ(clock.turn(standing, yes).chunk, window::no_chunk);
}

TEST(SecondChance, EachChunkIsInTheClockOnce) {
  SecondChance clock = clock_of({1, 1});
  EXPECT_EQ(clock.size(), 1u);
  clock.clear();
  EXPECT_TRUE(clock.is_empty());
  clock.add(1);
  EXPECT_EQ(clock.size(), 1u);
}

}  // namespace
}  // namespace weightpager::policy::second_chance_test
