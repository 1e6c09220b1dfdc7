// Last in, first out; what is busy stays listed.
#include "pager/policy/consumed_chunks.h"

#include <gtest/gtest.h>

namespace weightpager::policy {
namespace {

const auto yes = [](ChunkId) { return true; };
const auto no = [](ChunkId) { return false; };

TEST(ConsumedChunks, TheLastOneGoesFirst) {
  ConsumedChunks consumed;
  consumed.reset(10);
  for (ChunkId chunk : {4u, 5u, 6u, 5u}) consumed.add(chunk);
  EXPECT_EQ(consumed.take(no, yes), 6u);
  EXPECT_EQ(consumed.take(no, yes), 5u);
  EXPECT_FALSE(consumed.contains(5));
  EXPECT_EQ(consumed.take(no, yes), 4u);
  EXPECT_EQ(consumed.take(no, yes), window::no_chunk);
}

TEST(ConsumedChunks, BusyChunksStayAndOthersThatMayNotGoLeave) {
  ConsumedChunks consumed;
  consumed.reset(10);
  for (ChunkId chunk : {1u, 2u, 3u}) consumed.add(chunk);
  EXPECT_EQ(consumed.take([](ChunkId chunk) { return chunk == 3; },
                          [](ChunkId chunk) { return chunk != 2; }),
            1u);
  EXPECT_TRUE(consumed.contains(3));
  EXPECT_FALSE(consumed.contains(2));
  consumed.clear();
  EXPECT_FALSE(consumed.contains(3));
  EXPECT_EQ(consumed.take(no, yes), window::no_chunk);
}

}  // namespace
}  // namespace weightpager::policy
