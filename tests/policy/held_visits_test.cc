// A chunk stays between two visits where that saves more reads than a pin in its place.
#include "pager/policy/held_visits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace weightpager::policy::held_visits_test {
namespace {

constexpr uint32_t chunks = 400;
constexpr uint32_t near = 10;

using Visits = std::vector<PassOrder::Visit>;

PassOrder order_with(Visits visits) {
  PassOrder order;
  order.reset(chunks);
  std::vector<ChunkId> all(chunks);
  std::iota(all.begin(), all.end(), 0u);
  order.install(all);
  order.insert(std::move(visits));
  return order;
}

HeldVisits held_in(const PassOrder& order, uint32_t places_max = 10) {
  HeldVisits held;
  held.choose(order, near, places_max);
  return held;
}

uint32_t count(const HeldVisits& held, const PassOrder& order) {
  uint32_t visits = 0;
  for (uint32_t position = 0; position < order.size(); ++position) {
    visits += held.contains(position);
  }
  return visits;
}

/// The most that are held at once.
uint32_t most_at_once(const HeldVisits& held, const PassOrder& order) {
  std::vector<uint32_t> at(order.size(), 0);
  for (uint32_t position = 0; position < order.size(); ++position) {
    if (!held.contains(position)) continue;
    const uint32_t next = order.next_visit(position);
    for (uint32_t i = position; i != next; i = (i + 1) % order.size()) ++at[i];
  }
  return *std::ranges::max_element(at);
}

TEST(HeldVisits, NothingIsHeldWhereEachChunkIsVisitedOnce) {
  const PassOrder order = order_with({});
  EXPECT_EQ(held_in(order).places(), 0u);
  EXPECT_EQ(count(held_in(order), order), 0u);
}

// Each of ten tensors shares a chunk with one that comes 30 chunks later.
TEST(HeldVisits, OnePlaceServesIntervalsOneAfterTheOther) {
  Visits visits;
  for (ChunkId first = 0; first < chunks; first += 40) {
    visits.push_back({.behind = first + 30, .chunk = first});
  }
  const PassOrder order = order_with(visits);
  const HeldVisits held = held_in(order);
  EXPECT_EQ(held.places(), 1u);
  EXPECT_EQ(count(held, order), 10u);
  EXPECT_TRUE(held.contains(0));
  EXPECT_FALSE(held.contains(31));  // from the second visit on, the chunk is gone
}

TEST(HeldVisits, IntervalsThatOverlapTakeMorePlacesWhileThatPays) {
  Visits visits;
  for (ChunkId first = 0; first < chunks; first += 40) {
    for (const ChunkId at : {0u, 5u, 9u})
      visits.push_back({.behind = first + 30, .chunk = first + at});
  }
  visits.push_back({.behind = 290, .chunk = 190});  // alone in a fourth place
  const PassOrder order = order_with(visits);
  EXPECT_EQ(held_in(order).places(), 3u);
  EXPECT_EQ(count(held_in(order), order), 30u);
  EXPECT_EQ(held_in(order, 2).places(), 2u);
  EXPECT_EQ(count(held_in(order, 2), order), 20u);
  for (const uint32_t places : {1u, 2u, 3u, 10u}) {
    const HeldVisits held = held_in(order, places);
    EXPECT_EQ(most_at_once(held, order), held.places()) << places;
  }
}

// What is near stays in the ring anyway, and what is far would take its place for half of a pass.
TEST(HeldVisits, NeitherNearVisitsNorFarOnesNeedAPlace) {
  Visits visits;
  for (ChunkId first = 0; first < chunks; first += 40) {
    visits.push_back({.behind = first + near - 1, .chunk = first});
  }
  visits.push_back({.behind = 399, .chunk = 150});
  visits.push_back({.behind = 398, .chunk = 151});
  EXPECT_EQ(held_in(order_with(visits)).places(), 0u);
}

TEST(HeldVisits, AnIntervalMayGoAcrossTheEndOfThePass) {
  const PassOrder order = order_with({{.behind = 20, .chunk = 380}, {.behind = 220, .chunk = 180}});
  const HeldVisits held = held_in(order);
  EXPECT_EQ(held.places(), 1u);
  EXPECT_TRUE(held.contains(order.nearest_visit(380, 390)));
  EXPECT_FALSE(held.contains(order.position(380)));
}

}  // namespace
}  // namespace weightpager::policy::held_visits_test
