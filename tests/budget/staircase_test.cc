// Every step of a staircase is where the plans say it is.
#include "runtime/budget/staircase.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "tests/budget/some_networks.h"

namespace weightpager::budget {
namespace {

TEST(Staircase, LooksUpBothWays) {
  const Staircase stairs({{10, 100}, {15, 70}, {40, 65}});
  EXPECT_EQ(stairs.least_bytes(), 10u);
  EXPECT_EQ(stairs.delay_ns(10), 100u);
  EXPECT_EQ(stairs.delay_ns(14), 100u);
  EXPECT_EQ(stairs.delay_ns(15), 70u);
  EXPECT_EQ(stairs.delay_ns(1000), 65u);
  EXPECT_EQ(stairs.least_bytes_for(100), 10u);
  EXPECT_EQ(stairs.least_bytes_for(UINT64_MAX), 10u);
  EXPECT_EQ(stairs.least_bytes_for(99), 15u);
  EXPECT_EQ(stairs.least_bytes_for(70), 15u);
  EXPECT_EQ(stairs.least_bytes_for(65), 40u);
  EXPECT_EQ(stairs.least_bytes_for(64), std::nullopt);
}

TEST(Staircase, OfTheWorkedExample) {
  const std::vector<Step> expected = {{8, 327}, {9, 305}, {11, 291}};
  const Staircase stairs = block_staircase(six_layers());
  ASSERT_GE(stairs.steps().size(), 3u);
  EXPECT_EQ(stairs.steps()[0], expected[0]);
  EXPECT_EQ(stairs.steps()[1], expected[1]);
  EXPECT_EQ(stairs.steps().back().delay_ns, 291u);
}

RC_GTEST_PROP(AnyStaircase, IsThePlansDelayAtEveryBudget, ()) {
  const BlockedNetwork network = any_network(10);
  const Staircase stairs = block_staircase(network);
  RC_ASSERT(stairs.least_bytes() == least_budget_bytes(network));
  for (uint64_t budget_bytes = stairs.least_bytes(); budget_bytes < 90; ++budget_bytes) {
    RC_ASSERT(stairs.delay_ns(budget_bytes) == plan_blocks(network, budget_bytes)->delay_ns);
  }
}

}  // namespace
}  // namespace weightpager::budget
