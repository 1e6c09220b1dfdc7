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

std::vector<uint32_t> visits_of(const PassOrder& order, ChunkId chunk) {
  std::vector<uint32_t> visits;
  order.for_each_visit(chunk, [&](uint32_t at) { visits.push_back(at); });
  return visits;
}

TEST(PassOrder, AChunkMayBeVisitedAgain) {
  PassOrder order;
  order.reset(6);
  order.install({4, 1, 5, 4, 0, 4});
  EXPECT_EQ(order.size(), 6u);
  EXPECT_EQ(order.chunk_count(), 4u);
  EXPECT_EQ(order.position(4), 0u);
  EXPECT_EQ(visits_of(order, 4), (std::vector<uint32_t>{0, 3, 5}));
  EXPECT_EQ(visits_of(order, 0), (std::vector<uint32_t>{4}));
  EXPECT_EQ(visits_of(order, 2), std::vector<uint32_t>{});
  EXPECT_EQ(order.next_visit(5), 0u);
  EXPECT_EQ(order.next_visit(4), 4u);
  EXPECT_EQ(order.first_visits(), (Chunks{4, 1, 5, 0}));
}

TEST(PassOrder, TheNextVisitAndTheLastOne) {
  PassOrder order;
  order.reset(6);
  order.install({4, 1, 5, 4, 0, 2});
  EXPECT_EQ(order.ahead(4, 0), 0u);
  EXPECT_EQ(order.ahead(4, 1), 2u);
  EXPECT_EQ(order.ahead(4, 5), 1u);
  EXPECT_EQ(order.behind(4, 3), 0u);
  EXPECT_EQ(order.behind(4, 2), 2u);
  EXPECT_EQ(order.behind(5, 1), 5u);
}

TEST(PassOrder, VisitsAreAddedBehindWhatIsThere) {
  PassOrder order;
  order.reset(5);
  order.install({0, 1, 2, 3});
  order.set_pace({10, 11, 12, 13});
  order.insert({{.behind = 3, .chunk = 1}, {.behind = 1, .chunk = 3}, {.behind = 1, .chunk = 4}});
  EXPECT_EQ(all_of(order), (Chunks{0, 1, 3, 4, 2, 3, 1}));
  EXPECT_EQ(std::vector<float>(order.pace().begin(), order.pace().end()),
            (std::vector<float>{10, 11, 11, 11, 12, 13, 13}));
  EXPECT_EQ(order.position(4), 3u);
  order.erase_if([](ChunkId chunk) { return chunk == 3; });
  EXPECT_EQ(all_of(order), (Chunks{0, 1, 4, 2, 1}));
  EXPECT_EQ(order.chunk_count(), 4u);
}

}  // namespace
}  // namespace weightpager::policy
