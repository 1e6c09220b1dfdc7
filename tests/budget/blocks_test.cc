// Blocks: the model against a schedule written out event by event, the plans against all
// partitions.
#include "runtime/budget/blocks.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <optional>

#include "pager/base/units.h"
#include "runtime/budget/block_timeline.h"
#include "runtime/pipeline/simulate.h"
#include "tests/budget/some_networks.h"

namespace weightpager::budget {
namespace {

// Operation by operation: what each of them waits for, and the channel's order, in(1), in(2),
// out(1), in(3), out(2), …
uint64_t delay_by_events(const std::vector<LayerCosts>& blocks) {
  const size_t count = blocks.size();
  std::vector<uint64_t> in_end(count), ex_end(count);
  uint64_t channel_ns = 0;
  const auto compute = [&](size_t i) {
    ex_end[i] = std::max(in_end[i], i > 0 ? ex_end[i - 1] : 0) + blocks[i].kernel_ns;
  };
  const auto bring_in = [&](size_t i) {
    channel_ns += blocks[i].read_ns;
    in_end[i] = channel_ns;
    compute(i);
  };
  const auto let_go = [&](size_t i) {
    channel_ns = std::max(channel_ns, ex_end[i]) + blocks[i].release_ns;
  };
  bring_in(0);
  if (count > 1) bring_in(1);
  for (size_t i = 2; i < count; ++i) {
    let_go(i - 2);
    bring_in(i);
  }
  return ex_end.back();
}

std::optional<uint64_t> least_delay_ns(const BlockedNetwork& network, uint64_t budget_bytes,
                                       uint32_t blocks = any_number_of_blocks) {
  std::optional<uint64_t> least_ns;
  for_all_partitions(static_cast<uint32_t>(network.layers.size()), [&](const BlockEnds& ends) {
    if (peak_bytes(network, ends) > budget_bytes) return;
    if (blocks != any_number_of_blocks && ends.size() != blocks) return;
    const uint64_t ns = delay_by_events(block_costs(network, ends));
    least_ns = std::min(least_ns.value_or(ns), ns);
  });
  return least_ns;
}

// The pipeline's schedule, with units that are these blocks, two of them under way.
uint64_t delay_by_schedule(const std::vector<LayerCosts>& blocks) {
  std::vector<pipeline::UnitCosts> units;
  for (const LayerCosts& it : blocks)
    units.push_back(
        {.size_bytes = it.size_bytes, .read_ns = it.read_ns, .kernel_ns = it.kernel_ns});
  auto schedule = pipeline::Schedule::make(pipeline::work_units(units),
                                           {.pipeline = pipeline::Pipeline::two_stage,
                                            .rings = {.host_bytes = peak_bytes(blocks)},
                                            .units_under_way_max = 2});
  RC_ASSERT(schedule.has_value());
  return pipeline::simulate(*std::move(schedule), units, {}).front().delay_ns();
}

// What `infer --by blocks` runs takes the time that is planned.
RC_GTEST_PROP(Blocks, AreTheScheduleOfTwoUnitsUnderWay, ()) {
  BlockedNetwork network = any_network(9);
  for (LayerCosts& it : network.layers) it.release_ns = 0;
  network.per_block.release_ns = 0;
  for_all_partitions(static_cast<uint32_t>(network.layers.size()), [&](const BlockEnds& ends) {
    RC_ASSERT(delay_by_schedule(block_costs(network, ends)) == delay_ns(network, ends));
  });
}

TEST(Blocks, TheWorkedExample) {
  const BlockedNetwork network = six_layers();
  EXPECT_EQ(delay_ns(network, BlockEnds{2, 3, 6}), 369u);
  EXPECT_EQ(delay_ns(network, BlockEnds{2, 4, 6}), 338u);
  EXPECT_EQ(delay_ns(network, BlockEnds{3, 4, 6}), 411u);
  EXPECT_EQ(peak_bytes(network, BlockEnds{2, 4, 6}), 12u);
  EXPECT_EQ(peak_bytes(network, BlockEnds{1, 4, 6}), 14u);
  EXPECT_EQ(peak_bytes(network, BlockEnds{6}), 18u);
}

TEST(Blocks, TheWorkedExamplePlanned) {
  const BlockedNetwork network = six_layers();
  const auto expect = [&](uint64_t budget_bytes, uint64_t delay, const BlockEnds& ends) {
    const auto plan = plan_blocks(network, budget_bytes);
    ASSERT_TRUE(plan) << plan.error().message;
    EXPECT_EQ(plan->delay_ns, delay) << budget_bytes;
    EXPECT_EQ(delay_ns(network, ends), delay) << budget_bytes;
    EXPECT_LE(plan->peak_bytes, budget_bytes);
  };
  expect(8, 327, {1, 2, 3, 4, 5, 6});
  expect(9, 305, {1, 2, 4, 5, 6});
  expect(10, 305, {1, 2, 4, 5, 6});
  expect(12, 291, {1, 3, 5, 6});
  expect(18, 291, {1, 3, 5, 6});
  EXPECT_EQ(least_budget_bytes(network), 8u);
  EXPECT_FALSE(plan_blocks(network, 7));
}

TEST(Blocks, TooSmallABudgetNamesTheLeast) {
  const auto plan = plan_blocks(of_sizes({4096, 8192, 4096}), 12287);
  ASSERT_FALSE(plan);
  EXPECT_NE(plan.error().message.find("12.0 KiB (12288 bytes)"), std::string::npos)
      << plan.error().message;
  EXPECT_TRUE(plan_blocks(of_sizes({4096, 8192, 4096}), 12288));
}

TEST(Blocks, WhatABlockCostsForBeingOne) {
  BlockedNetwork network = of_sizes({5, 0, 7});
  network.layers[1] = {.read_ns = 1000, .kernel_ns = 30, .release_ns = 1000};
  network.per_block = {.read_ns = 100, .release_ns = 10};
  const std::vector<LayerCosts> blocks = block_costs(network, BlockEnds{1, 2, 3});
  EXPECT_EQ(blocks[0].read_ns, 105u);
  EXPECT_EQ(blocks[0].release_ns, 10u);
  EXPECT_EQ(blocks[1].read_ns, 0u) << "nothing to read";
  EXPECT_EQ(blocks[1].release_ns, 0u);
  EXPECT_EQ(blocks[1].kernel_ns, 30u);
  EXPECT_EQ(block_costs(network, BlockEnds{3})[0].read_ns, 112u);
}

TEST(Blocks, ANumberOfBlocksThatDoesNotFitNamesTheLeastBudgetForSoMany) {
  const BlockedNetwork network = of_sizes({4096, 8192, 4096, 4096});
  const auto plan = plan_blocks(network, 16383, {}, 3);
  ASSERT_FALSE(plan);
  EXPECT_NE(plan.error().message.find("for 3 blocks of these layers: the least budget for so many "
                                      "is 16.0 KiB (16384 bytes)"),
            std::string::npos)
      << plan.error().message;
  EXPECT_EQ(plan_blocks(network, 16384, {}, 3)->ends.size(), 3u);
}

// VGG-19: its first connected layer is 392.02 of 548.05 MiB.
TEST(Blocks, Vgg19sLeastBudgets) {
  const BlockedNetwork network = blocked_network({.read_ns_per_byte = 1}, vgg19());
  const auto mebibytes = [](uint64_t bytes) { return static_cast<double>(bytes) / MiB; };
  ASSERT_EQ(network.layers.size(), 19u);
  EXPECT_NEAR(mebibytes(peak_bytes(network, BlockEnds{19})), 548.05, 0.005);
  EXPECT_NEAR(mebibytes(network.layers[16].size_bytes), 392.02, 0.005);
  EXPECT_NEAR(mebibytes(least_budget_bytes(network)), 456.03, 0.005);
  EXPECT_NEAR(mebibytes(least_budget_bytes(network, 3)), 471.66, 0.005);
  EXPECT_NEAR(mebibytes(peak_bytes(network, BlockEnds{16, 17, 19})), 471.66, 0.005);
  EXPECT_EQ(least_budget_bytes(network, 1), peak_bytes(network, BlockEnds{19}));
}

TEST(Blocks, AnEmptyLayerBetweenTwoLargeOnesHalvesTheLeastBudget) {
  EXPECT_EQ(least_budget_bytes(of_sizes({10, 10})), 20u);
  EXPECT_EQ(least_budget_bytes(of_sizes({10, 0, 10})), 10u);
  const auto plan = plan_blocks(of_sizes({10, 0, 10}), 10);
  ASSERT_TRUE(plan);
  // 10 to read, 1 to compute, 1 of the empty layer's, but the next read starts when the first
  // block has left.
  EXPECT_EQ(plan->delay_ns, 10u + 1 + 10 + 1);
}

RC_GTEST_PROP(AnyBlocks, TakeAsLongAsTheirEvents, ()) {
  const BlockedNetwork network = any_network(9);
  for_all_partitions(static_cast<uint32_t>(network.layers.size()), [&](const BlockEnds& ends) {
    RC_ASSERT(delay_ns(network, ends) == delay_by_events(block_costs(network, ends)));
  });
}

// The channel does one thing at a time, and no more than two blocks are in memory.
RC_GTEST_PROP(AnyBlocks, HaveTheTimelineOfTheirDelay, ()) {
  const BlockedNetwork network = any_network(7);
  for_all_partitions(static_cast<uint32_t>(network.layers.size()), [&](const BlockEnds& ends) {
    const std::vector<LayerCosts> blocks = block_costs(network, ends);
    const std::vector<BlockTimes> times = block_timeline(blocks);
    RC_ASSERT(times.size() == blocks.size());
    RC_ASSERT(times.back().kernel.end_ns == delay_ns(network, ends));
    for (size_t i = 0; i < times.size(); ++i) {
      const BlockTimes& it = times[i];
      RC_ASSERT(it.read.end_ns - it.read.begin_ns == blocks[i].read_ns);
      RC_ASSERT(it.kernel.end_ns - it.kernel.begin_ns == blocks[i].kernel_ns);
      RC_ASSERT(it.release.end_ns - it.release.begin_ns == blocks[i].release_ns);
      RC_ASSERT(it.kernel.begin_ns >= it.read.end_ns);
      RC_ASSERT(it.release.begin_ns >= it.kernel.end_ns);
      if (i < 1) continue;
      RC_ASSERT(it.kernel.begin_ns >= times[i - 1].kernel.end_ns);
      RC_ASSERT(times[i - 1].release.begin_ns >= it.read.end_ns);
      RC_ASSERT(it.read.begin_ns >= (i < 2 ? times[0].read : times[i - 2].release).end_ns);
    }
  });
}

RC_GTEST_PROP(AnyBlocks, PlansAreTheBestOfAllPartitions, ()) {
  const BlockedNetwork network = any_network(11);
  const auto budget_bytes = pick<uint64_t>(0, 60);
  const auto plan = plan_blocks(network, budget_bytes);
  const auto least_ns = least_delay_ns(network, budget_bytes);
  RC_TAG(plan.has_value());
  RC_ASSERT(plan.has_value() == least_ns.has_value());
  RC_ASSERT(plan.has_value() == (budget_bytes >= least_budget_bytes(network)));
  if (!plan) return;
  RC_ASSERT(plan->delay_ns == *least_ns);
  RC_ASSERT(plan->delay_ns == delay_ns(network, plan->ends));
  RC_ASSERT(plan->peak_bytes == peak_bytes(network, plan->ends));
  RC_ASSERT(plan->peak_bytes <= budget_bytes);
}

// Of all cuts into a number of blocks, too: with all the time, and without any, where blocks are
// found for every budget that has some.
RC_GTEST_PROP(AnyBlocks, PlansOfANumberOfBlocksAreTheBestOfSoMany, ()) {
  const BlockedNetwork network = any_network(10);
  const auto blocks = pick(1u, static_cast<uint32_t>(network.layers.size()) + 1);
  const auto budget_bytes = pick<uint64_t>(0, 60);
  const auto plan = plan_blocks(network, budget_bytes, {}, blocks);
  const auto least_ns = least_delay_ns(network, budget_bytes, blocks);
  RC_TAG(plan.has_value());
  RC_ASSERT(plan.has_value() == least_ns.has_value());
  RC_ASSERT(check_block_budget(network, budget_bytes, blocks).has_value() == plan.has_value());
  if (!plan) return;
  RC_ASSERT(plan->is_best);
  RC_ASSERT(plan->ends.size() == blocks);
  RC_ASSERT(plan->delay_ns == *least_ns);
  RC_ASSERT(plan->peak_bytes <= budget_bytes);
  const auto soon = plan_blocks(network, budget_bytes, TimeLimit(0), blocks);
  RC_ASSERT(soon.has_value());
  RC_ASSERT(!soon->is_best);
  RC_ASSERT(soon->ends.size() == blocks);
  RC_ASSERT(soon->peak_bytes <= budget_bytes);
  RC_ASSERT(soon->delay_ns >= *least_ns);
}

RC_GTEST_PROP(AnyBlocks, LeastBudgetsAreThoseOfAllPartitions, ()) {
  const BlockedNetwork network = any_network(9);
  const auto layers = static_cast<uint32_t>(network.layers.size());
  std::vector<uint64_t> least_bytes(layers + 1, UINT64_MAX);
  for_all_partitions(layers, [&](const BlockEnds& ends) {
    uint64_t& least = least_bytes[ends.size()];
    least = std::min(least, peak_bytes(network, ends));
  });
  for (uint32_t blocks = 1; blocks <= layers; ++blocks) {
    RC_ASSERT(least_budget_bytes(network, blocks) == least_bytes[blocks]);
  }
  RC_ASSERT(least_budget_bytes(network) ==
            *std::min_element(least_bytes.begin(), least_bytes.end()));
}

}  // namespace
}  // namespace weightpager::budget
