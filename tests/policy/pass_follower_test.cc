// The parts together: the order that is in use, and what becomes of it.
#include "pager/policy/pass_follower.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace weightpager::policy::pass_follower_test {
namespace {

using Chunks = std::vector<ChunkId>;
using OrderChange = PassFollower::OrderChange;

constexpr uint32_t chunks = 200;
constexpr uint32_t window = 80;

Chunks range(ChunkId first, ChunkId end) {
  Chunks all(end - first);
  std::iota(all.begin(), all.end(), first);
  return all;
}

// An engine of which every touch is seen, since what arrives is gone at once.
struct SeenEngine {
  SeenEngine() : table(window), follower(table, {}, above) {
    table.add_chunks(chunks);
    follower.set_order({.cyclic = range(0, chunks)});
    EXPECT_EQ(follower.take_order_change(), OrderChange::replaced);
  }

  void pass(const Chunks& touched) {
    for (ChunkId chunk : touched) {
      follower.note_touch(chunk);
      follower.note_arrival(chunk);
    }
  }
  Chunks order() const {
    return {follower.order().chunks().begin(), follower.order().chunks().end()};
  }

  LayerAbove above;
  ChunkTable table;
  PassFollower follower;
};

TEST(PassFollower, DividesTheWindowAndPinsAShare) {
  SeenEngine it;
  const WindowShares& shares = it.follower.shares();
  EXPECT_EQ(shares.ring + shares.pinned + shares.sparse, window);
  uint32_t pinned = 0;
  for (ChunkId chunk = 0; chunk < chunks; ++chunk) pinned += it.follower.is_pinned(chunk);
  EXPECT_EQ(pinned, shares.pinned);
  EXPECT_FALSE(it.follower.is_pinned(chunks + 7));
}

TEST(PassFollower, CountsPassesUnlessALayerAboveDoes) {
  for (const bool counts_above : {false, true}) {
    SeenEngine it;
    it.above.counts_passes = counts_above;
    for (int pass = 0; pass < 4; ++pass) it.pass(range(0, chunks));
    EXPECT_EQ(it.follower.statistics().passes, counts_above ? 0u : 3u);
  }
}

TEST(PassFollower, TheOrderThatIsSeenReplacesTheOneThatWasDeclared) {
  SeenEngine it;
  Chunks executed;
  for (ChunkId layer = 10; layer-- > 0;) {
    for (ChunkId chunk : range(layer * 20, layer * 20 + 20)) executed.push_back(chunk);
  }
  EXPECT_TRUE(it.follower.access_profile().is_empty());
  for (int pass = 0; pass < 2; ++pass) it.pass(executed);
  EXPECT_EQ(it.order(), executed);
  EXPECT_EQ(it.follower.take_order_change(), OrderChange::replaced);
  EXPECT_EQ(it.follower.take_order_change(), OrderChange::none);
  EXPECT_EQ(it.follower.statistics().order_corrections, 1u);
  EXPECT_EQ(it.follower.access_profile().order, executed);
}

// Which of many threads is ahead is chance. So one pass does not replace what a run has learned,
// with all the visits that were found, unless it differs by more than the ring holds.
TEST(PassFollower, AnOrderOfAnEarlierRunIsNotReplacedForThreadsOutOfStep) {
  for (const ChunkId apart : {10u, 40u}) {
    for (const bool is_from_profile : {false, true}) {
      SeenEngine it;
      ChunkOrder order{.cyclic = range(0, chunks)};
      if (is_from_profile) {
        order.access_profile = {.order = order.cyclic,
                                .computed_ns = std::vector<float>(chunks, 0)};
      }
      it.follower.set_order(order);
      ASSERT_EQ(it.follower.shares().ring, 20u);
      Chunks executed = order.cyclic;
      for (auto block = executed.begin(); block != executed.end(); block += 2 * apart) {
        if (executed.end() - block < 2 * apart) break;
        std::rotate(block, block + apart, block + 2 * apart);
      }
      for (int pass = 0; pass < 2; ++pass) it.pass(executed);
      const bool is_kept = is_from_profile && apart < 20;
      EXPECT_EQ(it.follower.statistics().order_corrections, is_kept ? 0u : 1u) << apart;
    }
  }
}

// Five tensors: chunk 40 has the end of the first and the beginning of the second, chunk 160 those
// of the fourth and the fifth. The engine takes the last one first.
TEST(PassFollower, AChunkOfTwoTensorsIsVisitedWithEachWhereTheyAreApart) {
  SeenEngine it;
  it.follower.set_order({.cyclic = range(0, chunks), .shared = {40, 160}});
  EXPECT_EQ(it.order(), range(0, chunks));
  Chunks touched, visits;
  for (const ChunkId first : {160, 120, 80, 40, 0}) {
    for (ChunkId chunk : range(first, first + 40)) touched.push_back(chunk);
    for (ChunkId chunk : range(first, first + 40)) visits.push_back(chunk);
    if (first == 0 || first == 120) visits.push_back(first + 40);
  }
  for (int pass = 0; pass < 2; ++pass) it.pass(touched);
  EXPECT_EQ(it.order(), visits);
  EXPECT_EQ(it.follower.order().chunk_count(), chunks);
  const WindowShares& shares = it.follower.shares();
  EXPECT_EQ(shares.ring + shares.pinned + shares.held + shares.sparse, window);
}

// While the engine loaded, it looked at chunk 150. Whether a pass makes that visit is not known
// before one has been watched; after two it is out of the order, as another one is certain.
TEST(PassFollower, AVisitThatNoPassMakesIsTakenOut) {
  SeenEngine it;
  Chunks learned = range(0, chunks);
  learned.insert(learned.begin() + 10, 150);
  it.follower.set_order({.cyclic = range(0, chunks), .access_profile = {learned, {}}});
  ASSERT_EQ(it.order(), learned);
  it.follower.note_touch(0);
  EXPECT_FALSE(it.follower.is_expected(150));
  for (int pass = 0; pass < 4; ++pass) it.pass(range(0, chunks));
  EXPECT_EQ(it.order(), range(0, chunks));
  EXPECT_EQ(it.follower.access_profile().order, range(0, chunks));
}

// Every tensor shares a chunk with the one that the engine takes 40 chunks later. That chunk stays
// until then, and not until the next pass.
TEST(PassFollower, WhatAPassSoonComesBackToIsNeededUntilThen) {
  SeenEngine it;
  Chunks visits;
  for (ChunkId chunk = 0; chunk < chunks; ++chunk) {
    visits.push_back(chunk);
    if (chunk % 50 == 42) visits.push_back(chunk - 40);
  }
  it.follower.set_order({.cyclic = range(0, chunks), .access_profile = {visits, {}}});
  const WindowShares& shares = it.follower.shares();
  EXPECT_EQ(shares.held, 1u);
  EXPECT_EQ(shares.ring + shares.pinned + shares.held + shares.sparse, window);
  ASSERT_FALSE(it.follower.is_pinned(52));
  it.pass(visits);
  for (ChunkId chunk = 0; chunk < 90; ++chunk) it.follower.note_touch(chunk);
  EXPECT_TRUE(it.follower.is_needed(52));
  EXPECT_FALSE(it.follower.is_needed(53));
  for (ChunkId chunk = 90; chunk < 130; ++chunk) it.follower.note_touch(chunk);
  EXPECT_FALSE(it.follower.is_needed(52));
}

// Nothing is in memory, so that every touch is of an absent chunk.
TEST(PassFollower, AVisitThatTheOrderLacksIsAdded) {
  SeenEngine it;
  Chunks touched = range(0, 150);
  touched.push_back(20);
  for (ChunkId chunk : range(150, chunks)) touched.push_back(chunk);
  for (int pass = 0; pass < 5; ++pass) it.pass(touched);
  EXPECT_EQ(it.order(), touched);
  EXPECT_EQ(it.follower.access_profile().order, touched);
  // Another start begins with it.
  SeenEngine next;
  next.follower.set_order({.cyclic = range(0, chunks), .access_profile = {touched, {}}});
  EXPECT_EQ(next.order(), touched);
}

// The files say that chunks from 150 on are an embedding, of which a pass needs some rows. This
// engine goes through all of it, in the middle of the pass.
TEST(PassFollower, AMatrixThatWasTakenForRowsBecomesPartOfTheOrder) {
  SeenEngine it;
  it.follower.set_order({.cyclic = range(0, 150)});
  Chunks touched = range(0, 70);
  for (ChunkId chunk : range(150, chunks)) touched.push_back(chunk);
  for (ChunkId chunk : range(70, 150)) touched.push_back(chunk);
  EXPECT_GT(it.follower.shares().sparse, 0u);
  for (int pass = 0; pass < 6; ++pass) it.pass(touched);
  EXPECT_EQ(it.order(), touched);
  EXPECT_EQ(it.follower.shares().sparse, 0u);
  // Another start begins with it, but for what a layer above has of its own.
  SeenEngine next;
  next.follower.set_order({.cyclic = range(0, 150), .access_profile = {touched, {}}});
  EXPECT_EQ(next.order(), touched);
}

// Between the last chunk of a pass and the first one of the next, of which some were touched
// already in every other pass.
TEST(PassFollower, AMatrixBetweenTwoPassesBecomesPartOfTheOrder) {
  SeenEngine it;
  it.follower.set_order({.cyclic = range(0, 150)});
  for (int pass = 0; pass < 6; ++pass) {
    const ChunkId early = pass % 2 * 3;
    it.pass(range(0, early));
    it.pass(range(150, chunks));
    it.pass(range(early, 150));
  }
  EXPECT_EQ(it.follower.order().chunk_count(), chunks);
}

TEST(PassFollower, ThreadsThatWaitAtOnceKeepWhatNoOrderForesees) {
  constexpr uint32_t threads = 6;
  for (const uint32_t cyclic : {20u, 150u}) {  // all of it fits, or not
    SeenEngine it;
    it.follower.set_order({.cyclic = range(0, cyclic)});
    EXPECT_EQ(it.follower.shares().is_streaming, cyclic == 150) << cyclic;
    for (ChunkId row = 160; row < 160 + threads; ++row) it.follower.note_touch(row);
    EXPECT_EQ(it.follower.safe_deliveries(160), 2 * threads) << cyclic;
  }
}

// What is found stands where the cursor was, and threads far apart can keep the cursor behind. The
// next pass shows where it belongs.
TEST(PassFollower, WhatJoinedTheOrderAtAWrongPlaceGetsItsOwn) {
  SeenEngine it;
  Chunks touched = range(150, chunks);
  for (ChunkId chunk : range(0, 150)) touched.push_back(chunk);
  Chunks wrong = range(0, 100);
  for (ChunkId chunk : range(150, chunks)) wrong.push_back(chunk);
  for (ChunkId chunk : range(100, 150)) wrong.push_back(chunk);
  it.follower.set_order({.cyclic = range(0, chunks), .access_profile = {wrong, {}}});
  for (int pass = 0; pass < 6; ++pass) it.pass(touched);
  Chunks now = it.order();
  std::ranges::rotate(now, std::ranges::find(now, touched.front()));
  EXPECT_EQ(now, touched);
}

TEST(PassFollower, WhatTwoPassesLeaveUntouchedLosesItsPosition) {
  SeenEngine it;
  Chunks used = range(0, 100);
  for (ChunkId chunk : range(110, chunks)) used.push_back(chunk);
  for (int pass = 0; pass < 4; ++pass) it.pass(used);
  EXPECT_EQ(it.order(), used);
  EXPECT_EQ(it.follower.take_order_change(), OrderChange::edited);
}

TEST(PassFollower, ReadingBeginsBeforeTheFirstTouchIfAPassIsAnnounced) {
  SeenEngine it;
  EXPECT_EQ(it.follower.next_ahead(), window::no_chunk);
  EXPECT_TRUE(it.follower.begin_pass());
  EXPECT_FALSE(it.follower.begin_pass());
  EXPECT_EQ(it.follower.next_ahead(), 0u);
  it.follower.note_read_ahead(0);
  EXPECT_EQ(it.follower.next_ahead(), 1u);
  it.follower.note_evicted(0);
  EXPECT_EQ(it.follower.next_ahead(), 0u);
  EXPECT_EQ(it.follower.statistics().prefetch_unused, 1u);
}

}  // namespace
}  // namespace weightpager::policy::pass_follower_test
