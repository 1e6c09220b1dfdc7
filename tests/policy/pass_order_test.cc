// Positions and pace stay right when the order changes.
#include "pager/policy/pass_order.h"

#include <gtest/gtest.h>

#include <vector>

namespace weightpager::policy {
namespace {

using Chunks = std::vector<ChunkId>;

Chunks all_of(const PassOrder& order) { return {order.chunks().begin(), order.chunks().end()}; }

TEST(PassOrder, KnowsThePositionOfEachChunk) {
  PassOrder order;
  order.reset(6);
  order.install({4, 1, 5});
  EXPECT_EQ(order.size(), 3u);
  EXPECT_EQ(order[0], 4u);
  EXPECT_EQ(order.position(5), 2u);
  EXPECT_EQ(order.position(0), PassOrder::nowhere);
  EXPECT_TRUE(order.contains(1));
  EXPECT_FALSE(order.contains(2));
}

TEST(PassOrder, PlacesCountOnAcrossPasses) {
  PassOrder order;
  order.reset(3);
  order.install({2, 0, 1});
  EXPECT_EQ(order.chunk_at(0), 2u);
  EXPECT_EQ(order.chunk_at(7), 0u);
}

TEST(PassOrder, WhatIsLeftKeepsItsPace) {
  PassOrder order;
  order.reset(5);
  order.install({0, 1, 2, 3, 4});
  order.set_pace({10, 11, 12, 13, 14});
  order.erase_if([](ChunkId chunk) { return chunk % 2 == 1; });
  EXPECT_EQ(all_of(order), (Chunks{0, 2, 4}));
  EXPECT_EQ(std::vector<float>(order.pace().begin(), order.pace().end()),
            (std::vector<float>{10, 12, 14}));
  EXPECT_EQ(order.position(4), 2u);
  EXPECT_FALSE(order.contains(3));
}

TEST(PassOrder, AnotherOrderHasNoPace) {
  PassOrder order;
  order.reset(3);
  order.install({0, 1, 2});
  order.set_pace({1, 2, 3});
  order.install({2, 1});
  EXPECT_TRUE(order.pace().empty());
  EXPECT_FALSE(order.contains(0));
}

}  // namespace
}  // namespace weightpager::policy
