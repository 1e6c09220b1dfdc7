// Positions and pace stay right when the order changes.
#include "pager/policy/pass_order.h"

#include <gtest/gtest.h>

#include <numeric>
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
  order.erase_if([](uint32_t position) { return position % 2 == 1; });
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
  order.erase_if([&](uint32_t position) { return order[position] == 3; });
  EXPECT_EQ(all_of(order), (Chunks{0, 1, 4, 2, 1}));
  EXPECT_EQ(order.chunk_count(), 4u);
}

// Nobody doubts the only visit of a chunk. Of several, those are idle that two passes did not make,
// once another one was seen to be made.
TEST(PassOrder, AVisitThatNobodyMakesIsIdle) {
  PassOrder order;
  order.reset(6);
  order.install({4, 1, 5, 4, 0});
  EXPECT_TRUE(order.is_doubtful(0) && order.is_doubtful(3));
  EXPECT_FALSE(order.is_doubtful(1));
  for (int pass = 0; pass < 2; ++pass) {
    EXPECT_FALSE(order.is_idle(0));
    order.note_not_made(0);
    order.note_not_made(1);
  }
  EXPECT_FALSE(order.is_idle(0));  // perhaps nobody makes the other one either
  order.note_made(3);
  EXPECT_TRUE(order.is_idle(0));
  EXPECT_FALSE(order.is_idle(1) || order.is_idle(3));
  order.note_not_made(3);
  order.note_not_made(3);
  EXPECT_FALSE(order.is_doubtful(3));
}

TEST(PassOrder, WhatIsKnownOfAVisitMovesWithIt) {
  PassOrder order;
  order.reset(6);
  order.install({4, 1, 5, 4, 0});
  order.note_made(3);
  order.note_not_made(0);
  order.note_not_made(0);
  order.insert({{.behind = 0, .chunk = 5}});
  EXPECT_EQ(all_of(order), (Chunks{4, 5, 1, 5, 4, 0}));
  EXPECT_TRUE(order.is_doubtful(1) && order.is_doubtful(3));
  EXPECT_TRUE(order.is_idle(0));
  EXPECT_FALSE(order.is_doubtful(4));
  order.erase_if([&](uint32_t position) { return order.is_idle(position); });
  EXPECT_EQ(all_of(order), (Chunks{5, 1, 5, 4, 0}));
}

TEST(PassOrder, AVisitThatWasSeenIsNotDoubted) {
  PassOrder order;
  order.reset(6);
  order.install({4, 1, 5});
  order.insert({{.behind = 1, .chunk = 4, .is_certain = true}});
  EXPECT_TRUE(order.is_doubtful(0));
  EXPECT_FALSE(order.is_doubtful(2));
}

TEST(PassOrder, TheNearestVisit) {
  PassOrder order;
  order.reset(20);
  Chunks all(20);
  std::iota(all.begin(), all.end(), 0u);
  all.push_back(5);  // visits at 5 and 20
  order.install(all);
  EXPECT_EQ(order.nearest_visit(5, 4), 5u);
  EXPECT_EQ(order.nearest_visit(5, 9), 5u);
  EXPECT_EQ(order.nearest_visit(5, 14), 20u);
  EXPECT_EQ(order.nearest_visit(5, 1), 20u);  // across the end of the pass
}

}  // namespace
}  // namespace weightpager::policy
