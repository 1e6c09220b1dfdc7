// The cursor follows an engine that goes on, and is not led away by one that only looks elsewhere.
#include "pager/policy/cursor.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace weightpager::policy {
namespace {

using Chunks = std::vector<ChunkId>;
using Move = Cursor::Move;

constexpr uint32_t chunks = 1000;  // of 2 MiB
constexpr uint32_t window = 250;
constexpr uint32_t ring = 62;

// An engine in a model of which nothing is in memory, but what a test reads.
struct Engine {
  Engine() : table(window), cursor(table, order, 2 * MiB) {
    table.add_chunks(chunks);
    for (uint32_t slot = 0; slot < window; ++slot) table.add_slot(slot);
    order.reset(chunks);
    Chunks all(chunks);
    std::iota(all.begin(), all.end(), 0u);
    order.install(all);
    cursor.set_ring(ring, true);
  }

  void read(ChunkId chunk) {
    table.start_read(chunk);
    table.finish_read(chunk);
  }

  /// The engine goes through all chunks from where it is to this one.
  Cursor::Sighting go_to(ChunkId chunk) {
    for (uint64_t place = cursor.place() + 1; place < cursor.place_of(chunk); ++place) {
      const ChunkId between = order.chunk_at(place);
      if (table.state(between) == ChunkState::absent) read(between);
      if (table.state(between) == ChunkState::ready) table.map(between, true);
    }
    return touch(chunk);
  }

  /// A touch, and what the cursor makes of it.
  Cursor::Sighting touch(ChunkId chunk, bool is_absent = false) {
    const Cursor::Sighting seen = cursor.see(chunk, is_absent);
    if (seen.move == Move::advance) cursor.advance(seen.place);
    if (seen.move == Move::jump) cursor.jump(seen.place);
    return seen;
  }
  uint32_t position() const { return static_cast<uint32_t>(cursor.place() % order.size()); }

  ChunkTable table;
  PassOrder order;
  Cursor cursor;
};

TEST(Cursor, TheFirstTouchSaysWhereTheEngineIs) {
  Engine it;
  EXPECT_FALSE(it.cursor.is_set());
  EXPECT_EQ(it.touch(300).move, Move::jump);
  EXPECT_TRUE(it.cursor.is_set());
  EXPECT_EQ(it.position(), 300u);
}

TEST(Cursor, GoesOnAcrossTheEndOfThePass) {
  Engine it;
  it.touch(990);
  const uint64_t before = it.cursor.place();
  const uint64_t place = it.cursor.place_of(5);
  EXPECT_EQ(it.cursor.passes_until(place), 1u);
  EXPECT_EQ(it.go_to(5).move, Move::advance);
  EXPECT_EQ(it.cursor.place(), before + 15);
}

// An engine cannot pass a chunk that is not mapped without a touch. So a chunk that is touched too
// soon is out of order, and all that lies before it is still needed.
TEST(Cursor, DoesNotFollowATouchOverAnUntouchedChunk) {
  Engine it;
  it.touch(300);
  it.read(310);
  EXPECT_EQ(it.touch(320).move, Move::none);
  EXPECT_EQ(it.position(), 300u);
  EXPECT_EQ(it.go_to(310).move, Move::advance);
  EXPECT_EQ(it.go_to(325).move, Move::advance);
}

TEST(Cursor, TwoTouchesBeyondAnUntouchedChunkSayThatItIsLeftOut) {
  Engine it;
  it.touch(300);
  EXPECT_EQ(it.touch(310).move, Move::none);
  EXPECT_EQ(it.touch(308).move, Move::none);  // no further than before
  EXPECT_EQ(it.touch(309).move, Move::advance);
  EXPECT_EQ(it.position(), 309u);
}

// Chunk 910 is said to be visited behind 304, too, and nobody was seen to make that visit. It may
// be none, so the engine has gone on, though the chunk is not mapped.
TEST(Cursor, ADoubtfulVisitHoldsNothingUp) {
  for (const bool is_certain : {false, true}) {
    Engine it;
    it.order.insert({{.behind = 304, .chunk = 910, .is_certain = is_certain}});
    it.touch(300);
    for (ChunkId chunk = 301; chunk < 310; ++chunk) {
      it.read(chunk);
      it.table.map(chunk, true);
    }
    EXPECT_EQ(it.touch(310).move, is_certain ? Move::none : Move::advance);
  }
}

// They begin with a matrix together, each with its own chunk.
TEST(Cursor, AsManyThreadsAsThereAreTouchAsFarBeyondTheFrontier) {
  for (const bool are_known : {false, true}) {
    Engine it;
    it.touch(300);
    if (are_known) it.cursor.set_threads(16);
    for (const ChunkId chunk : {312u, 314u}) {
      const Cursor::Sighting seen = it.touch(chunk, true);
      EXPECT_EQ(seen.is_stray, !are_known) << chunk;
      const bool is_second = chunk == 314;
      EXPECT_EQ(seen.move, is_second ? (are_known ? Move::advance : Move::jump) : Move::none);
    }
  }
}

TEST(Cursor, AnEarlierLeapSaysNothingAboutOtherChunks) {
  Engine it;
  it.touch(300);
  it.touch(305);
  EXPECT_EQ(it.go_to(304).move, Move::advance);
  EXPECT_EQ(it.go_to(310).move, Move::advance);
  EXPECT_EQ(it.touch(320).move, Move::none);
}

TEST(Cursor, ATouchALittleBehindSaysNothing) {
  Engine it;
  it.touch(300);
  const Cursor::Sighting seen = it.touch(290);
  EXPECT_EQ(seen.move, Move::none);
  EXPECT_FALSE(seen.is_stray);
  EXPECT_EQ(it.position(), 300u);
}

TEST(Cursor, AChunkThatIsVisitedAgainIsExpectedAtEachVisit) {
  Engine it;
  it.order.insert({{.behind = 679, .chunk = 100}});  // position 680
  it.touch(110);
  EXPECT_EQ(it.touch(100, true).move, Move::none);  // a little behind
  it.touch(650);
  it.touch(660);
  ASSERT_EQ(it.position(), 660u);
  const Cursor::Sighting seen = it.go_to(100);
  EXPECT_EQ(seen.move, Move::advance);
  EXPECT_EQ(seen.place % it.order.size(), 680u);
  EXPECT_TRUE(it.cursor.is_around(100));
  it.touch(800);
  it.touch(810);
  EXPECT_FALSE(it.cursor.is_around(100));
}

TEST(Cursor, ATouchFarAwayIsAStrayUntilTheNextOneGoesOnFromThere) {
  Engine it;
  it.touch(300);
  Cursor::Sighting seen = it.touch(700);
  EXPECT_EQ(seen.move, Move::none);
  EXPECT_TRUE(seen.is_stray);
  EXPECT_EQ(it.touch(301).move, Move::advance);
  EXPECT_TRUE(it.touch(800).is_stray);
  EXPECT_EQ(it.touch(803).move, Move::jump);
  EXPECT_EQ(it.position(), 803u);
}

TEST(Cursor, AnAbsentChunkFurtherBehindThanTheRingCouldHaveBeenKept) {
  Engine it;
  it.touch(300);
  // Behind by less than the widest ring, which is 64 chunks here.
  const Cursor::Sighting seen = it.touch(300 - 63, true);
  EXPECT_GT(seen.linger_wanted, 0u);
  EXPECT_FALSE(seen.is_stray);
  EXPECT_TRUE(it.touch(300 - 100, true).is_stray);
}

TEST(Cursor, ReadsOnFromTheFrontierAndStopsBehindItself) {
  Engine it;
  it.touch(300);
  it.read(301);
  EXPECT_EQ(it.cursor.next_absent(), 300u);
  it.cursor.note_asked();
  EXPECT_EQ(it.cursor.next_absent(), 302u);
  EXPECT_EQ(it.cursor.next_absent(), 302u);
  uint32_t asked = 0;
  for (; it.cursor.next_absent() != window::no_chunk; ++asked) it.cursor.note_asked();
  EXPECT_EQ(asked, chunks - 2 - 4);  // 4 chunks behind the cursor linger
}

TEST(Cursor, WhatGoesIsAskedForAgain) {
  Engine it;
  it.touch(300);
  for (int i = 0; i < 10; ++i) it.cursor.note_asked();
  it.cursor.note_evicted(400);  // not asked for
  EXPECT_EQ(it.cursor.next_absent(), 310u);
  it.cursor.note_evicted(305);
  EXPECT_EQ(it.cursor.next_absent(), 305u);
}

TEST(Cursor, OffersWhatItLeftBehindOnceAndALittleLate) {
  Engine it;
  it.touch(300);
  it.go_to(310);
  Chunks consumed;
  for (ChunkId chunk; (chunk = it.cursor.next_consumed()) != window::no_chunk;) {
    consumed.push_back(chunk);
  }
  // From 4 chunks (8 MiB) behind the place where it began to 4 behind where it is.
  EXPECT_EQ(consumed, (Chunks{296, 297, 298, 299, 300, 301, 302, 303, 304, 305}));
  EXPECT_TRUE(it.cursor.is_around(306));
  EXPECT_FALSE(it.cursor.is_around(305));
}

TEST(Cursor, WhatWasEvictedTooEarlyLingersLonger) {
  Engine it;
  it.touch(300);
  it.go_to(310);
  it.cursor.skip_consumed();
  EXPECT_EQ(it.touch(305, true).linger_wanted, 0u);
  EXPECT_TRUE(it.cursor.is_around(304));
  // Beyond half of the ring the ring is what lacks.
  for (int i = 0; i < 5; ++i) it.touch(310 - 40, true);
  EXPECT_EQ(it.touch(310 - 40, true).linger_wanted, 41u);
  EXPECT_TRUE(it.cursor.is_around(310 - ring / 2));
  EXPECT_FALSE(it.cursor.is_around(310 - ring / 2 - 1));
}

// A chunk between two strips: seen at once, and told apart from one that was left a moment ago.
TEST(Cursor, SaysThatAChunkWasEvictedTooEarly) {
  Engine it;
  it.touch(300);
  it.go_to(320);
  EXPECT_TRUE(it.touch(300, true).is_early);
  EXPECT_FALSE(it.touch(300).is_early);
  EXPECT_FALSE(it.touch(317, true).is_early);
}

// What was found to be needed does not have to be found again.
TEST(Cursor, InAnotherOrderMostOfWhatLingeredStillDoes) {
  Engine it;
  it.touch(300);
  it.go_to(330);
  it.touch(310, true);
  it.touch(310, true);
  it.touch(310, true);  // 4, 8, 16, 21 chunks
  it.cursor.set_ring(ring, true);
  it.cursor.set_ring(ring, true);
  EXPECT_TRUE(it.cursor.is_around(330 - 21));  // in a ring of the same length, all of it
  it.cursor.forget();
  it.cursor.set_ring(ring, true);
  it.touch(350);
  EXPECT_TRUE(it.cursor.is_around(350 - 15));  // three quarters of 21
  EXPECT_FALSE(it.cursor.is_around(350 - 16));
}

TEST(Cursor, FindsTheChunkThatIsNeededLast) {
  Engine it;
  EXPECT_EQ(it.cursor.find_farthest([](ChunkId) { return true; }), window::no_chunk);
  it.touch(300);
  for (int i = 0; i < 10; ++i) it.cursor.note_asked();
  EXPECT_EQ(it.cursor.find_farthest([](ChunkId) { return true; }), 309u);
  EXPECT_EQ(it.cursor.find_farthest([](ChunkId chunk) { return chunk < 305; }), 304u);
  // Where the engine is, nothing goes.
  EXPECT_EQ(it.cursor.find_farthest([](ChunkId chunk) { return chunk == 300; }), window::no_chunk);
}

TEST(Cursor, ForgetsWhereTheEngineIs) {
  Engine it;
  it.touch(300);
  it.cursor.forget();
  EXPECT_FALSE(it.cursor.is_set());
  EXPECT_FALSE(it.cursor.is_around(300));
  EXPECT_EQ(it.touch(700).move, Move::jump);
}

}  // namespace
}  // namespace weightpager::policy
