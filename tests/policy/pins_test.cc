// Pins are spread evenly, by time where that is known, and move as little as possible.
#include "pager/policy/pins.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace weightpager::policy::pins_test {
namespace {

using Chunks = std::vector<ChunkId>;

constexpr uint32_t chunks = 1000;
constexpr uint32_t ring = 50;

PassOrder all_in_order() {
  PassOrder order;
  order.reset(chunks);
  Chunks all(chunks);
  std::iota(all.begin(), all.end(), 0u);
  order.install(all);
  return order;
}

uint32_t count(const Pins& pins, ChunkId first, ChunkId end) {
  uint32_t pinned = 0;
  for (ChunkId chunk = first; chunk < end; ++chunk) pinned += pins.contains(chunk);
  return pinned;
}

TEST(Pins, AreSpreadEvenly) {
  Pins pins;
  pins.reset({}, chunks);
  pins.choose(all_in_order(), 300, ring);
  EXPECT_EQ(count(pins, 0, chunks), 300u);
  for (ChunkId chunk = 0; chunk < chunks; chunk += 100) {
    EXPECT_NEAR(count(pins, chunk, chunk + 100), 30, 2) << "from " << chunk;
  }
}

TEST(Pins, MoreOfThemContainFewer) {
  Pins few;
  Pins more;
  few.reset({}, chunks);
  more.reset({}, chunks);
  few.choose(all_in_order(), 200, ring);
  more.choose(all_in_order(), 230, ring);
  for (ChunkId chunk = 0; chunk < chunks; ++chunk) {
    EXPECT_TRUE(more.contains(chunk) || !few.contains(chunk)) << chunk;
  }
}

TEST(Pins, WhatTheUserWantsComesFirstAndThenWhatIsRevisited) {
  Pins pins;
  pins.reset({.revisited = {10, 20, 30}, .kept = {501, 502}}, chunks);
  pins.choose(all_in_order(), 2, ring);
  EXPECT_TRUE(pins.contains(501) && pins.contains(502));
  pins.choose(all_in_order(), 5, ring);
  EXPECT_EQ(count(pins, 0, 31), 3u);
}

// Where the engine computes ten times as long, ten times as much is streamed.
TEST(Pins, LieWhereLittleTimeIsComputed) {
  PassOrder order = all_in_order();
  std::vector<float> pace(chunks, 1);
  std::fill(pace.begin(), pace.begin() + chunks / 2, 10.0f);
  order.set_pace(pace);
  Pins pins;
  pins.reset({}, chunks);
  pins.choose(order, 500, ring);
  EXPECT_NEAR(count(pins, 0, chunks / 2), 500 - 500 * 10 / 11, 5);
  EXPECT_NEAR(count(pins, chunks / 2, chunks), 500 - 500 / 11, 5);
}

TEST(Pins, WhatIsNotInTheOrderIsNotPinned) {
  PassOrder order = all_in_order();
  order.erase_if([](ChunkId chunk) { return chunk < 500; });
  Pins pins;
  pins.reset({.kept = {3}}, chunks);
  pins.choose(order, 100, ring);
  EXPECT_EQ(count(pins, 0, 500), 0u);
  EXPECT_EQ(count(pins, 500, chunks), 100u);
}

}  // namespace
}  // namespace weightpager::policy::pins_test
