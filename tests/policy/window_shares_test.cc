// Every chunk of the window belongs to somebody, and to one only.
#include "pager/policy/window_shares.h"

#include <gtest/gtest.h>
// After gtest: it uses its macros.
#include <rapidcheck/gtest.h>

#include "pager/base/units.h"

namespace weightpager::policy {
namespace {

WindowNeeds needs(uint32_t window, uint32_t cyclic) {
  return {.chunk_bytes = 2 * MiB, .window = window, .cyclic = cyclic};
}

TEST(WindowShares, ARingOfAQuarterAndTheRestPinned) {
  const WindowShares shares = divide_window(needs(250, 1000));
  EXPECT_TRUE(shares.is_streaming);
  EXPECT_EQ(shares.ring, 62u);
  EXPECT_EQ(shares.pinned, 188u);
}

TEST(WindowShares, WhereEverythingFitsEverythingIsPinned) {
  const WindowShares shares = divide_window(needs(330, 300));
  EXPECT_FALSE(shares.is_streaming);
  EXPECT_EQ(shares.ring, 0u);
  EXPECT_EQ(shares.pinned, 300u);
  EXPECT_EQ(shares.sparse, 30u);
}

TEST(WindowShares, WhereLittleIsMissingTheRingIsShort) {
  EXPECT_EQ(divide_window(needs(290, 300)).ring, 10u);
  EXPECT_EQ(divide_window(needs(299, 300)).ring, 4u);  // 8 MiB at least
}

TEST(WindowShares, ThreadsFarApartGetWhatTheyWantUpToHalfOfTheWindow) {
  WindowNeeds wide = needs(100, 1000);
  wide.linger = 15;
  EXPECT_EQ(divide_window(wide).ring, 30u);
  wide.linger = 40;
  EXPECT_EQ(divide_window(wide).ring, 50u);
}

TEST(WindowShares, ManyThreadsThatWaitAtOnceGetTwoPlacesEachUpToHalfOfTheWindow) {
  WindowNeeds many = needs(100, 1000);
  many.at_once = 4;
  EXPECT_EQ(divide_window(many).ring, 25u);
  many.at_once = 16;
  EXPECT_EQ(divide_window(many).ring, 32u);
  many.at_once = 64;
  EXPECT_EQ(divide_window(many).ring, 50u);
}

TEST(WindowShares, TheLayerAboveGetsAnEighthAtLeastAndWhatIsLeftOver) {
  WindowNeeds mixture = needs(400, 1000);
  mixture.above = 2000;
  mixture.above_largest = 6;
  EXPECT_EQ(divide_window(mixture).above, 50u);
  mixture.cyclic = 100;
  EXPECT_EQ(divide_window(mixture).above, 300u);
}

RC_GTEST_PROP(WindowShares, AddUpToTheWindow, ()) {
  WindowNeeds any =
      needs(*rc::gen::inRange<uint32_t>(16, 2000), *rc::gen::inRange<uint32_t>(1, 3000));
  any.sparse = *rc::gen::inRange<uint32_t>(0, 500);
  any.above = *rc::gen::inRange<uint32_t>(0, 3000);
  any.above_largest = any.above == 0 ? 0 : *rc::gen::inRange<uint32_t>(1, 40);
  any.at_once = *rc::gen::inRange<uint32_t>(0, 100);
  any.linger = *rc::gen::inRange<uint32_t>(0, 100);
  const WindowShares shares = divide_window(any);
  RC_ASSERT(shares.ring + shares.pinned + shares.sparse + shares.above == any.window);
  RC_ASSERT(shares.pinned <= any.cyclic);
  RC_ASSERT(shares.above <= any.above);
  RC_ASSERT(shares.is_streaming == (shares.pinned < any.cyclic));
}

}  // namespace
}  // namespace weightpager::policy
