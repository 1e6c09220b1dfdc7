#include "pager/spill/free_places.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace weightpager::spill {
namespace {

TEST(FreePlacesTest, TheLowestIsTheLowestOfAnySet) {
  for (const uint64_t places : {1ull, 64ull, 65ull, 4096ull, 4097ull, 300'000ull}) {
    FreePlaces free;
    std::set<uint64_t> model;
    std::mt19937_64 random(places);
    EXPECT_EQ(free.lowest(), std::nullopt);
    for (int step = 0; step < 20'000; ++step) {
      const uint64_t place = random() % places;
      ASSERT_EQ(free.contains(place), model.contains(place));
      if (model.erase(place) != 0) {
        free.take(place);
      } else {
        free.add(place);
        model.insert(place);
      }
      ASSERT_EQ(free.count(), model.size());
      ASSERT_EQ(free.lowest(), model.empty() ? std::nullopt : std::optional(*model.begin()));
    }
  }
}

}  // namespace
}  // namespace weightpager::spill
