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

HeldVisits nothing_held() {
  HeldVisits held;
  held.choose(all_in_order(), ring, 0);
  return held;
}

uint32_t count(const Pins& pins, ChunkId first, ChunkId end) {
  uint32_t pinned = 0;
  for (ChunkId chunk = first; chunk < end; ++chunk) pinned += pins.contains(chunk);
  return pinned;
}

TEST(Pins, AreSpreadEvenly) {
  Pins pins;
  pins.reset({}, chunks);
  pins.choose(all_in_order(), nothing_held(), 300, ring);
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
  few.choose(all_in_order(), nothing_held(), 200, ring);
  more.choose(all_in_order(), nothing_held(), 230, ring);
  for (ChunkId chunk = 0; chunk < chunks; ++chunk) {
    EXPECT_TRUE(more.contains(chunk) || !few.contains(chunk)) << chunk;
  }
}

TEST(Pins, WhatTheUserWantsComesFirstAndThenWhatIsRevisited) {
  Pins pins;
  pins.reset({.revisited = {10, 20, 30}, .kept = {501, 502}}, chunks);
  pins.choose(all_in_order(), nothing_held(), 2, ring);
  EXPECT_TRUE(pins.contains(501) && pins.contains(502));
  pins.choose(all_in_order(), nothing_held(), 5, ring);
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
  pins.choose(order, nothing_held(), 500, ring);
  EXPECT_NEAR(count(pins, 0, chunks / 2), 500 - 500 * 10 / 11, 5);
  EXPECT_NEAR(count(pins, chunks / 2, chunks), 500 - 500 / 11, 5);
}

TEST(Pins, WhatIsNotInTheOrderIsNotPinned) {
  PassOrder order = all_in_order();
  order.erase_if([](uint32_t position) { return position < 500; });
  Pins pins;
  pins.reset({.kept = {3}}, chunks);
  pins.choose(order, nothing_held(), 100, ring);
  EXPECT_EQ(count(pins, 0, 500), 0u);
  EXPECT_EQ(count(pins, 500, chunks), 100u);
}

// A visit in front shifts all positions behind it, and yet no pin moves; unless the order is quite
// another one, along which pins are to be even.
TEST(Pins, StayWhereTheyAreUntilTurnsAreForgotten) {
  PassOrder order = all_in_order();
  Pins pins;
  pins.reset({}, chunks);
  pins.choose(order, nothing_held(), 300, ring);
  const Pins before = pins;
  const auto moved = [&] {
    uint32_t count = 0;
    for (ChunkId chunk = 0; chunk < chunks; ++chunk) {
      count += before.contains(chunk) && !pins.contains(chunk);
    }
    return count;
  };
  order.insert({{.behind = 10, .chunk = 40}});
  pins.choose(order, nothing_held(), 300, ring);
  EXPECT_EQ(moved(), 0u);

  Chunks by_twos;
  for (ChunkId chunk = 0; chunk < chunks; chunk += 2) by_twos.push_back(chunk);
  for (ChunkId chunk = 1; chunk < chunks; chunk += 2) by_twos.push_back(chunk);
  order.install(by_twos);
  pins.forget_turns();
  pins.choose(order, nothing_held(), 300, ring);
  EXPECT_GT(moved(), 100u);
  for (size_t from = 0; from < chunks; from += 100) {
    uint32_t pinned = 0;
    for (size_t at = from; at < from + 100; ++at) pinned += pins.contains(by_twos[at]);
    EXPECT_NEAR(pinned, 30, 2) << from;
  }
}

// A pass reads chunk 100 twice, and the others once, since they are held between their visits.
TEST(Pins, WhatIsHeldIsNotPinnedBeforeOthers) {
  PassOrder order = all_in_order();
  order.insert({{.behind = 170, .chunk = 110},
                {.behind = 180, .chunk = 100},
                {.behind = 360, .chunk = 300}});
  HeldVisits held;
  held.choose(order, ring, 1);
  ASSERT_EQ(held.places(), 1u);
  Pins pins;
  pins.reset({}, chunks);
  pins.choose(order, held, 1, ring);
  EXPECT_TRUE(pins.contains(100));
  pins.choose(order, held, 3, ring);
  EXPECT_TRUE(pins.contains(100));
  EXPECT_FALSE(pins.contains(110) && pins.contains(300));
}

}  // namespace
}  // namespace weightpager::policy::pins_test
