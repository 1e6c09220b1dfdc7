// A GPU's times on the host's clock.
#include "runtime/pipeline/cuda/stage_clock.h"

#include <gtest/gtest.h>

namespace weightpager::cuda {
namespace {

using pipeline::TimeSpan;

constexpr uint64_t ms = 1'000'000;

TEST(StageClock, UnitsFollowEachOtherAsTheEventsSay) {
  StageClock clock;
  clock.begin(100 * ms);
  EXPECT_EQ(clock.place(1, 2, 100 * ms, 110 * ms), (TimeSpan{101 * ms, 103 * ms}));
  EXPECT_EQ(clock.place(0.5, 1, 100 * ms, 110 * ms),
            (TimeSpan{103 * ms + ms / 2, 104 * ms + ms / 2}));
}

TEST(StageClock, NothingBeginsBeforeItWasPutInLine) {
  StageClock clock;
  clock.begin(100 * ms);
  EXPECT_EQ(clock.place(1, 2, 105 * ms, 120 * ms), (TimeSpan{105 * ms, 107 * ms}));
  // What follows hangs on where that was moved to.
  EXPECT_EQ(clock.place(1, 2, 105 * ms, 120 * ms), (TimeSpan{108 * ms, 110 * ms}));
}

TEST(StageClock, NothingIsOverAfterSomebodyHasHeardOfIt) {
  StageClock clock;
  clock.begin(100 * ms);
  EXPECT_EQ(clock.place(10, 2, 100 * ms, 111 * ms), (TimeSpan{109 * ms, 111 * ms}));
}

TEST(StageClock, ClocksThatDisagreeGiveNoTimesBackwards) {
  StageClock clock;
  clock.begin(100 * ms);
  // Longer than there was time for.
  EXPECT_EQ(clock.place(0, 5, 100 * ms, 101 * ms), (TimeSpan{100 * ms, 101 * ms}));
  EXPECT_EQ(clock.place(-1, -1, 102 * ms, 102 * ms), (TimeSpan{102 * ms, 102 * ms}));
}

}  // namespace
}  // namespace weightpager::cuda
