// Plans keep to their budget, do what they promise, and are not slower than a ring alone.
#include "runtime/pipeline/pinning.h"

#include <gtest/gtest.h>

#include "pager/base/units.h"
#include "runtime/pipeline/search.h"
#include "runtime/pipeline/simulate.h"
#include "tests/pipeline/random_network.h"

namespace weightpager::pipeline {
namespace {

using Costs = std::vector<UnitCosts>;

Costs random_costs(RandomNetworks& random) {
  Costs costs = random.costs();
  for (UnitCosts& unit : costs) unit.size_bytes *= ring_step_bytes;
  return costs;
}

// Enough for a ring of two stages, and up to 20 steps more.
uint64_t random_budget(RandomNetworks& random, const Costs& costs) {
  const uint64_t smallest = smallest_rings(Pipeline::two_stage, work_units(costs)).host_bytes;
  return smallest + ring_step_bytes * random.up_to(20);
}

TEST(Pinning, PlansAreWhatTheSimulatorSees) {
  RandomNetworks random(15);
  int with_pins = 0, refused = 0;
  for (int round = 0; round < 300; ++round) {
    const Costs costs = random_costs(random);
    const Pipeline pipeline = round % 2 == 0 ? Pipeline::asynchronous : Pipeline::two_stage;
    const uint64_t budget_bytes = random.up_to(2 * bytes_per_pass(costs));
    const auto plan = plan_window(pipeline, costs, budget_bytes);
    if (!plan) {
      ++refused;
      EXPECT_LT(budget_bytes, smallest_rings(pipeline, work_units(costs)).bytes());
      continue;
    }
    ASSERT_LE(plan->window_bytes(), budget_bytes);
    auto schedule = Schedule::make(work_units(costs, plan->is_pinned),
                                   {.pipeline = pipeline, .rings = plan->rings});
    ASSERT_TRUE(schedule) << schedule.error().message;
    ASSERT_EQ(schedule->pinned_bytes(), plan->pinned_bytes);
    const std::vector<Timeline> inferences = simulate(*schedule, costs, {.inferences = 3});
    ASSERT_EQ(inferences[1].delay_ns(), plan->delay_ns);
    ASSERT_EQ(inferences[2].delay_ns(), plan->delay_ns);
    ASSERT_EQ(plan->bytes_per_pass + plan->pinned_bytes, bytes_per_pass(costs));
    with_pins += plan->pinned_bytes > 0;
  }
  EXPECT_GT(with_pins, 100);
  EXPECT_GT(refused, 20);
}

TEST(Pinning, IsNeverSlowerThanTheRingAlone) {
  RandomNetworks random(16);
  int faster = 0;
  for (int round = 0; round < 300; ++round) {
    const Costs costs = random_costs(random);
    const uint64_t budget_bytes = random_budget(random, costs);
    const auto plan = plan_window(Pipeline::two_stage, costs, budget_bytes);
    ASSERT_TRUE(plan);
    const uint64_t alone_ns = delay_ns(Pipeline::two_stage, costs, {.host_bytes = budget_bytes});
    ASSERT_LE(plan->delay_ns, alone_ns) << "round " << round;
    faster += plan->delay_ns < alone_ns;
  }
  EXPECT_GT(faster, 50);
}

// What is left out because it cannot be as good as what is known is never what would be found.
TEST(Pinning, ALimitOnDelaysChangesNothingButWhetherThereIsAPlan) {
  RandomNetworks random(18);
  int waiting = 0;
  for (int round = 0; round < 200; ++round) {
    const Costs costs = random_costs(random);
    const uint64_t budget_bytes = random_budget(random, costs);
    for (const Inferences inferences : {Inferences::one_by_one, Inferences::in_a_row}) {
      const auto plan_within = [&](uint64_t delay_ns_max) {
        return plan_window(Pipeline::two_stage, costs, budget_bytes, {.delay_ns_max = delay_ns_max},
                           inferences);
      };
      const auto plan = plan_within(UINT64_MAX);
      ASSERT_TRUE(plan);
      const auto same = plan_within(plan->delay_ns);
      ASSERT_TRUE(same) << "round " << round;
      ASSERT_EQ(same->is_pinned, plan->is_pinned);
      ASSERT_EQ(same->rings, plan->rings);
      if (plan->delay_ns > 0) {
        ASSERT_FALSE(plan_within(plan->delay_ns - 1)) << "round " << round;
      }
      waiting += plan->delay_ns > least_delay_ns(after_first_pass(costs, plan->is_pinned));
    }
  }
  EXPECT_GT(waiting, 50);
}

// Whatever the disk, a budget for the whole model is a model in memory.
TEST(Pinning, OutOfTimeThereIsAPlanWhereverThereIsOne) {
  RandomNetworks random(18);
  const TimeLimit over(0);
  int slower = 0;
  for (int round = 0; round < 200; ++round) {
    const Costs costs = random_costs(random);
    const uint64_t budget_bytes = random.up_to(2 * bytes_per_pass(costs));
    const auto best = plan_window(Pipeline::two_stage, costs, budget_bytes);
    const auto first = plan_window(Pipeline::two_stage, costs, budget_bytes, {.time = &over});
    ASSERT_EQ(first.has_value(), best.has_value());
    if (!best) continue;
    ASSERT_LE(first->window_bytes(), budget_bytes);
    ASSERT_GE(first->delay_ns, best->delay_ns);
    slower += first->delay_ns > best->delay_ns;
  }
  EXPECT_GT(slower, 10) << "no plan was ended early";
}

TEST(Pinning, EverythingIsPinnedThatFits) {
  RandomNetworks random(17);
  for (int round = 0; round < 100; ++round) {
    const Costs costs = random_costs(random);
    const auto plan = plan_window(Pipeline::two_stage, costs, bytes_per_pass(costs));
    ASSERT_TRUE(plan);
    ASSERT_EQ(plan->delay_ns, delay_ns(Pipeline::preload, costs, {}));
    ASSERT_EQ(plan->bytes_per_pass, 0u);
    ASSERT_EQ(plan->rings, Rings{});
  }
}

// Equal layers whose reads take twice as long as their kernels: half of them pinned hides the rest,
// if it is every other one.
TEST(Pinning, PinsAreSpreadAsKernelsAre) {
  const Costs costs(16, {.size_bytes = ring_step_bytes, .read_ns = 200, .kernel_ns = 100});
  const auto plan = plan_window(Pipeline::two_stage, costs, 11 * ring_step_bytes);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->delay_ns, 1600u);  // the kernels: no stall is left
  for (size_t i = 0; i + 3 < costs.size(); ++i) {
    const int pinned = plan->is_pinned[i] + plan->is_pinned[i + 1] + plan->is_pinned[i + 2] +
                       plan->is_pinned[i + 3];
    EXPECT_GE(pinned, 1) << i;
  }
}

TEST(Pinning, RefusesBudgetsBelowTheLargestLayer) {
  const Costs costs = {{.size_bytes = 1 * MiB}, {.size_bytes = 3 * MiB}};
  const auto refused = plan_window(Pipeline::asynchronous, costs, 5 * MiB);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message,
            "a window of 5.0 MiB is too small for the asynchronous pipeline of these layers: the "
            "largest needs 6.0 MiB (6291456 bytes)");
  EXPECT_TRUE(plan_window(Pipeline::asynchronous, costs, 6 * MiB));
}

}  // namespace
}  // namespace weightpager::pipeline
