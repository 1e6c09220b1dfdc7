// Who makes room, and who does not.
#include "pager/policy/victims.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace weightpager::policy::victims_test {
namespace {

using Chunks = std::vector<ChunkId>;

constexpr uint32_t chunks = 100;
constexpr uint32_t window = 40;
constexpr ChunkId sparse_begin = 80;  // chunks from here on are not cyclic
constexpr ChunkId owned = 95;         // by a layer above

struct Room {
  Room() : table(window), follower(table, {}, above), victims(table, follower, above) {
    table.add_chunks(chunks);
    for (uint32_t slot = 0; slot < window; ++slot) table.add_slot(slot);
    above.is_owned.assign(chunks, false);
    above.is_owned[owned] = true;
    above.chunks = 1;
    above.keeps = [this](ChunkId) { return is_kept_above; };
    Chunks cyclic(sparse_begin);
    std::iota(cyclic.begin(), cyclic.end(), 0u);
    victims.reset();
    follower.set_order({.cyclic = cyclic});
  }

  void map(ChunkId chunk) {
    table.start_read(chunk);
    table.finish_read(chunk);
    table.map(chunk, true);
  }
  ChunkId streamed_from(ChunkId chunk) const {
    while (follower.is_pinned(chunk)) ++chunk;
    return chunk;
  }

  bool is_kept_above = false;
  LayerAbove above;
  ChunkTable table;
  PassFollower follower;
  Victims victims;
};

TEST(Victims, WhatIsResidentWithoutAReasonIsListed) {
  Room it;
  const ChunkId streamed = it.streamed_from(10);
  ChunkId pinned = 20;
  while (!it.follower.is_pinned(pinned)) ++pinned;
  for (ChunkId chunk : {streamed, pinned, sparse_begin, owned}) it.map(chunk);
  it.victims.list_anew();
  EXPECT_EQ(it.victims.next_consumed(), streamed);
  EXPECT_EQ(it.victims.next_consumed(), window::no_chunk);
  EXPECT_EQ(it.victims.next_by_clock().chunk, sparse_begin);
  EXPECT_EQ(it.victims.next_by_clock().chunk, window::no_chunk);
}

TEST(Victims, WhatWasJustDeliveredStays) {
  Room it;
  it.map(sparse_begin);
  it.victims.list_anew();
  it.victims.note_touch(sparse_begin);
  EXPECT_FALSE(it.victims.can_go(sparse_begin));
  EXPECT_EQ(it.victims.next_by_clock().chunk, window::no_chunk);
  for (ChunkId chunk = 0; chunk < 8; ++chunk) it.victims.note_touch(chunk);
  EXPECT_TRUE(it.victims.can_go(sparse_begin));
}

TEST(Victims, WhatALayerAboveLeavesToTheClockGoesUnlessItIsKept) {
  Room it;
  it.map(owned);
  it.victims.add_to_clock(owned);
  it.is_kept_above = true;
  EXPECT_EQ(it.victims.next_by_clock().chunk, window::no_chunk);
  it.victims.add_to_clock(owned);
  it.is_kept_above = false;
  EXPECT_EQ(it.victims.next_by_clock().chunk, owned);
}

TEST(Victims, WhatTheKernelRefusedIsNotAskedForAgainUntilItIsForgotten) {
  Room it;
  it.map(sparse_begin);
  it.victims.note_refusal(sparse_begin);
  EXPECT_FALSE(it.victims.can_go(sparse_begin));
  it.victims.forget_refusals();
  EXPECT_TRUE(it.victims.can_go(sparse_begin));
}

TEST(Victims, WhatCannotBeHiddenIsNotToBeHiddenForAWhileAndCanGo) {
  Room it;
  it.map(sparse_begin);
  EXPECT_TRUE(it.victims.can_be_hidden(sparse_begin));
  it.victims.note_not_hidden(sparse_begin);
  EXPECT_FALSE(it.victims.can_be_hidden(sparse_begin));
  EXPECT_TRUE(it.victims.can_go(sparse_begin));
  for (uint64_t i = 0; i < Evictability::refusal_touches; ++i) it.victims.note_touch(0);
  EXPECT_TRUE(it.victims.can_be_hidden(sparse_begin));
}

// Each of them would read its chunk again and again.
TEST(Victims, ThreadsThatWaitAtOnceDoNotTakeEachOthersChunks) {
  constexpr uint32_t threads = 5;
  Room it;
  for (uint32_t i = 0; i < threads; ++i) it.follower.note_touch(sparse_begin + i);
  for (uint32_t i = 0; i < threads; ++i) {
    it.map(sparse_begin + i);
    it.victims.note_touch(sparse_begin + i);
  }
  for (uint32_t i = 0; i < threads; ++i) EXPECT_FALSE(it.victims.can_go(sparse_begin + i)) << i;
  for (uint32_t i = 0; i < 2 * threads; ++i) it.victims.note_touch(0);
  EXPECT_TRUE(it.victims.can_go(sparse_begin));
}

TEST(Victims, ThePinnedChunksGoLast) {
  Room it;
  ChunkId pinned = 0;
  while (!it.follower.is_pinned(pinned)) ++pinned;
  const ChunkId streamed = it.streamed_from(50);
  it.map(pinned);
  EXPECT_EQ(it.victims.oldest(), pinned);
  it.map(streamed);
  it.victims.note_touch(streamed);
  EXPECT_EQ(it.victims.oldest(), streamed);
}

}  // namespace
}  // namespace weightpager::policy::victims_test
