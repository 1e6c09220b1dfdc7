// Which slots are free, and where the most of them lie side by side: against the plainest code that
// does the same.
#include "pager/window/free_slots.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace weightpager::window {
namespace {

SlotId first_of_fitting_run(const std::set<SlotId>& slots, uint32_t wanted) {
  SlotId longest = no_slot;
  uint32_t longest_length = 0;
  SlotId shortest = no_slot;
  uint32_t shortest_length = UINT32_MAX;
  for (const SlotId first : slots) {
    if (first > 0 && slots.contains(first - 1)) continue;
    uint32_t length = 1;
    while (slots.contains(first + length)) ++length;
    if (length > longest_length) {
      longest = first;
      longest_length = length;
    }
    if (length >= wanted && length < shortest_length) {
      shortest = first;
      shortest_length = length;
    }
  }
  return shortest != no_slot ? shortest : longest;
}

TEST(FreeSlots, IsWhatASetOfNumbersWouldSay) {
  constexpr uint32_t slots = 300;
  std::mt19937 random(7);
  FreeSlots free;
  std::set<SlotId> expected;
  for (int step = 0; step < 20000; ++step) {
    // Runs of slots, so that there are long ones, too.
    const SlotId first = random() % slots;
    const SlotId end = first + 1 + random() % 20;
    const bool adds = random() % 2 == 0;
    for (SlotId slot = first; slot < end; ++slot) {
      if (free.contains(slot) == adds) continue;
      adds ? free.add(slot) : free.take(slot);
      if (adds) {
        expected.insert(slot);
      } else {
        expected.erase(slot);
      }
    }
    ASSERT_EQ(free.count(), expected.size());
    if (expected.empty()) continue;
    ASSERT_EQ(free.last(), *expected.rbegin());
    const uint32_t wanted = 1 + random() % 40;
    ASSERT_EQ(free.fitting(wanted), first_of_fitting_run(expected, wanted));
  }
}

TEST(FreeSlots, RunsGoOnAcrossWords) {
  FreeSlots free;
  for (SlotId slot = 60; slot < 200; ++slot) free.add(slot);
  free.add(0);
  EXPECT_EQ(free.fitting(2), 60u);
  EXPECT_EQ(free.fitting(1000), 60u);
  EXPECT_EQ(free.fitting(1), 0u) << "a long run stays whole for whoever needs it";
  EXPECT_EQ(free.last(), 199u);
  free.take(130);
  EXPECT_EQ(free.fitting(1000), 60u);
  EXPECT_EQ(free.fitting(70), 60u);
  EXPECT_EQ(free.fitting(69), 131u);
  free.take(100);
  EXPECT_EQ(free.fitting(1000), 131u);
  EXPECT_FALSE(free.contains(100));
  EXPECT_FALSE(free.contains(5000));
}

TEST(FreeSlotsDeathTest, NothingIsAddedOrTakenTwice) {
  FreeSlots free;
  free.add(3);
  EXPECT_DEATH(free.add(3), "internal check failed");
  free.take(3);
  EXPECT_DEATH(free.take(3), "internal check failed");
  EXPECT_DEATH(free.last(), "internal check failed");
}

}  // namespace
}  // namespace weightpager::window
