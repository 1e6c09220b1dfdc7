// Threads that wait at the same time are counted by the chunks that they wait for.
#include "pager/policy/awaited_chunks.h"

#include <gtest/gtest.h>

namespace weightpager::policy::awaited_chunks_test {
namespace {

TEST(AwaitedChunks, CountsChunksAndNotThreads) {
  AwaitedChunks awaited;
  awaited.reset(10);
  EXPECT_EQ(awaited.most(), 0u);
  for (const ChunkId chunk : {3, 4, 3, 5}) awaited.note_touch(chunk);
  EXPECT_EQ(awaited.most(), 3u);
}

TEST(AwaitedChunks, WhatHasArrivedIsWaitedForNoMore) {
  AwaitedChunks awaited;
  awaited.reset(10);
  for (ChunkId chunk = 0; chunk < 10; ++chunk) {
    awaited.note_touch(chunk);
    awaited.note_arrival(chunk);
    awaited.note_arrival(chunk);  // a read that nobody waited for
  }
  EXPECT_EQ(awaited.most(), 1u);
}

TEST(AwaitedChunks, IsForgottenAfterTwoPasses) {
  AwaitedChunks awaited;
  awaited.reset(10);
  for (ChunkId chunk = 0; chunk < 6; ++chunk) awaited.note_touch(chunk);
  for (ChunkId chunk = 0; chunk < 4; ++chunk) awaited.note_arrival(chunk);
  awaited.end_pass();
  EXPECT_EQ(awaited.most(), 6u);
  awaited.end_pass();
  EXPECT_EQ(awaited.most(), 2u);  // these two were waited for when the last pass began
}

TEST(AwaitedChunks, HowManyThereWereIsKnownInTheNextOrder) {
  AwaitedChunks awaited;
  awaited.reset(10);
  for (ChunkId chunk = 0; chunk < 6; ++chunk) awaited.note_touch(chunk);
  awaited.reset(20);
  EXPECT_EQ(awaited.most(), 6u);
  awaited.note_touch(15);
  awaited.end_pass();
  EXPECT_EQ(awaited.most(), 1u);
}

TEST(AwaitedChunks, WhatNeverComesIsForgotten) {
  AwaitedChunks awaited;
  awaited.reset(10);
  awaited.note_touch(5);
  for (int pass = 0; pass < 2; ++pass) awaited.end_pass();
  awaited.note_touch(6);
  EXPECT_EQ(awaited.most(), 1u);
  awaited.note_arrival(5);
  awaited.note_touch(7);
  EXPECT_EQ(awaited.most(), 2u);
}

}  // namespace
}  // namespace weightpager::policy::awaited_chunks_test
