// Every step of a step function is where the plans say it is.
#include "runtime/budget/step_function.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "tests/base/sanitized.h"
#include "tests/budget/some_networks.h"

namespace weightpager::budget {
namespace {

TEST(StepFunction, LooksUpBothWays) {
  const StepFunction stairs({{10, 100}, {15, 70}, {40, 65}});
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

TEST(StepFunction, OfTheWorkedExample) {
  const std::vector<Step> expected = {{8, 327}, {9, 305}, {11, 291}};
  const StepFunction stairs = block_delay_steps(six_layers()).delay_steps;
  ASSERT_GE(stairs.steps().size(), 3u);
  EXPECT_EQ(stairs.steps()[0], expected[0]);
  EXPECT_EQ(stairs.steps()[1], expected[1]);
  EXPECT_EQ(stairs.steps().back().delay_ns, 291u);
}

RC_GTEST_PROP(AnyStepFunction, IsThePlansDelayAtEveryBudget, ()) {
  const BlockedNetwork network = any_network(10);
  const StepFunction stairs = block_delay_steps(network).delay_steps;
  RC_ASSERT(stairs.least_bytes() == least_budget_bytes(network));
  for (uint64_t budget_bytes = stairs.least_bytes(); budget_bytes < 90; ++budget_bytes) {
    RC_ASSERT(stairs.delay_ns(budget_bytes) == plan_blocks(network, budget_bytes)->delay_ns);
  }
}

RC_GTEST_PROP(AnyStepFunction, HasTheBlocksOfEachStep, ()) {
  const BlockedNetwork network = any_network(10);
  for (const TimeLimit& limit : {TimeLimit(), TimeLimit(0)}) {
    const BlockSteps steps = block_delay_steps(network, limit);
    RC_ASSERT(steps.ends.size() == steps.delay_steps.steps().size());
    for (size_t i = 0; i < steps.ends.size(); ++i) {
      const Step& step = steps.delay_steps.steps()[i];
      RC_ASSERT(delay_ns(network, steps.ends[i]) == step.delay_ns);
      RC_ASSERT(peak_bytes(network, steps.ends[i]) <= step.budget_bytes);
    }
  }
}

RC_GTEST_PROP(AnyStepFunction, OfANumberOfBlocksIsThePlansDelay, ()) {
  const BlockedNetwork network = any_network(8);
  const auto blocks = pick(1u, static_cast<uint32_t>(network.layers.size()) + 1);
  const uint64_t least_bytes = least_budget_bytes(network, blocks);
  const StepFunction best = block_delay_steps(network, {}, blocks).delay_steps;
  const BlockSteps soon = block_delay_steps(network, TimeLimit(0), blocks);
  RC_ASSERT(best.least_bytes() == least_bytes);
  RC_ASSERT(soon.delay_steps.least_bytes() == least_bytes);
  for (uint64_t budget_bytes = least_bytes; budget_bytes < 70; ++budget_bytes) {
    const uint64_t best_ns = plan_blocks(network, budget_bytes, {}, blocks)->delay_ns;
    RC_ASSERT(best.delay_ns(budget_bytes) == best_ns);
    RC_ASSERT(soon.delay_steps.delay_ns(budget_bytes) >= best_ns);
  }
}

// Without any time there are still blocks for every budget, none better than the best, and it is
// said from where on they are the best.
TEST(StepFunction, WithoutTimeHasBlocksForEveryBudget) {
  const BlockedNetwork network = six_layers();
  const StepFunction best = block_delay_steps(network).delay_steps;
  const BlockSteps steps = block_delay_steps(network, TimeLimit(0));
  EXPECT_EQ(steps.delay_steps.least_bytes(), best.least_bytes());
  EXPECT_FALSE(steps.exact_from_bytes);
  for (uint64_t budget_bytes = best.least_bytes(); budget_bytes <= 18; ++budget_bytes) {
    EXPECT_GE(steps.delay_steps.delay_ns(budget_bytes), best.delay_ns(budget_bytes));
    EXPECT_LE(static_cast<double>(steps.delay_steps.delay_ns(budget_bytes)),
              (1 + steps.excess_max) * static_cast<double>(best.delay_ns(budget_bytes)));
  }
  EXPECT_EQ(block_delay_steps(network).exact_from_bytes, best.least_bytes());
}

RC_GTEST_PROP(AnyStepFunction, WithoutTimeIsWithinWhatIsProved, ()) {
  const BlockedNetwork network = any_network(10);
  const BlockSteps steps = block_delay_steps(network, TimeLimit(0));
  RC_ASSERT(steps.delay_steps.least_bytes() == least_budget_bytes(network));
  for (uint64_t budget_bytes = least_budget_bytes(network); budget_bytes < 90; ++budget_bytes) {
    const uint64_t best_ns = plan_blocks(network, budget_bytes)->delay_ns;
    RC_ASSERT(delay_bound_ns(network, budget_bytes) <= best_ns);
    RC_ASSERT(steps.delay_steps.delay_ns(budget_bytes) >= best_ns);
    RC_ASSERT(static_cast<double>(steps.delay_steps.delay_ns(budget_bytes)) <=
              (1 + steps.excess_max) * static_cast<double>(best_ns) + 1e-6);
  }
}

// Thousands of layers take no longer by groups than some hundred one by one, and lose little.
TEST(StepFunction, OfThousandsOfLayersIsMadeByGroups) {
  BlockedNetwork network{.layers = {}, .per_block = {.read_ns = 50, .release_ns = 5}};
  for (uint64_t i = 0; i < 1500; ++i) {
    network.layers.push_back({.size_bytes = 4096 * (1 + i % 3),
                              .read_ns = 20 + 10 * (i % 3),
                              .kernel_ns = 20 + 30 * (i % 2),
                              .release_ns = 1});
  }
  if (!is_sanitized) {
    const BlockSteps steps = block_delay_steps(network, TimeLimit(0));
    EXPECT_EQ(steps.delay_steps.least_bytes(), least_budget_bytes(network));
    EXPECT_GT(steps.delay_steps.steps().size(), 5u);
    EXPECT_FALSE(steps.exact_from_bytes);
  }
  const uint64_t budget_bytes = 100 * 4096;
  const BlockPlan plan = plan_blocks_coarsely(network, budget_bytes);
  EXPECT_LE(peak_bytes(network, plan.ends), budget_bytes);
  EXPECT_EQ(delay_ns(network, plan.ends), plan.delay_ns);
  EXPECT_LE(static_cast<double>(plan.delay_ns),
            1.05 * static_cast<double>(delay_bound_ns(network, budget_bytes)));
}

}  // namespace
}  // namespace weightpager::budget
