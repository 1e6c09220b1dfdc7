#include "pager/spill/unfinished_chunks.h"

#include <gtest/gtest.h>

namespace weightpager::spill {
namespace {

TEST(UnfinishedChunksTest, HalfOfTheWindowMayStay) {
  UnfinishedChunks unfinished;
  for (uint64_t stayed = 0; stayed < 10; ++stayed) {
    ASSERT_TRUE(unfinished.may_stay(100 + stayed, 20)) << stayed;
    unfinished.note_stay(100 + stayed);
  }
  EXPECT_FALSE(unfinished.may_stay(110, 20));
  EXPECT_TRUE(unfinished.may_stay(110, 22)) << "the window has grown";
}

TEST(UnfinishedChunksTest, WhatStayedLongAgoDoesNotCount) {
  UnfinishedChunks unfinished;
  for (uint64_t touches = 1; touches <= 4; ++touches) unfinished.note_stay(touches);
  EXPECT_FALSE(unfinished.may_stay(64, 8));
  EXPECT_TRUE(unfinished.may_stay(65, 8)) << "the first one is asked for again";
  unfinished.note_stay(65);
  EXPECT_FALSE(unfinished.may_stay(65, 8));
  EXPECT_TRUE(unfinished.may_stay(66, 8));
}

TEST(UnfinishedChunksTest, ASmallWindowHasNoRoomForAny) {
  const UnfinishedChunks unfinished;
  EXPECT_FALSE(unfinished.may_stay(0, 1));
  EXPECT_TRUE(unfinished.may_stay(0, 2));
}

TEST(UnfinishedChunksTest, NoMoreStayThanAreRemembered) {
  UnfinishedChunks unfinished;
  uint32_t stayed = 0;
  for (; unfinished.may_stay(0, 1'000'000); ++stayed) unfinished.note_stay(0);
  EXPECT_EQ(stayed, UnfinishedChunks::stayed_max);
  EXPECT_TRUE(unfinished.may_stay(UnfinishedChunks::touches_counted, 1'000'000));
}

}  // namespace
}  // namespace weightpager::spill
