// The paper's way to blocks: its numbers, its equation as printed and mended, and what it misses.
#include "runtime/budget/lookup_table.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "pager/base/units.h"
#include "tests/budget/some_networks.h"

namespace weightpager::budget {
namespace {

/// The sum of the equation as the paper prints it: the last block counts, too, and what is left
/// over of one block's time is a delay of the next.
uint64_t uncovered_as_printed_ns(const std::vector<LayerCosts>& blocks) {
  int64_t before_ns = 0, sum_ns = 0;
  for (size_t i = 1; i < blocks.size(); ++i) {
    const uint64_t next_read_ns = i + 1 < blocks.size() ? blocks[i + 1].read_ns : 0;
    before_ns = static_cast<int64_t>(blocks[i - 1].release_ns + next_read_ns) -
                (static_cast<int64_t>(blocks[i].kernel_ns) + before_ns);
    sum_ns += std::max<int64_t>(before_ns, 0);
  }
  return static_cast<uint64_t>(sum_ns);
}

TEST(LookupTable, AsManyBlocksAsThePaperHas) {
  EXPECT_EQ(suggested_blocks(170, 102), 4u);
  EXPECT_EQ(suggested_blocks(170, 119), 3u);
  EXPECT_EQ(suggested_blocks(170, 136), 3u);
  EXPECT_EQ(suggested_blocks(170, 170), 1u);
  EXPECT_EQ(suggested_blocks(170, 169), 3u);
}

// Time that was left over in block 2 is no delay of block 3.
TEST(LookupTable, TheEquationMended) {
  const std::vector<LayerCosts> blocks = {
      {.size_bytes = 1, .read_ns = 10, .kernel_ns = 50, .release_ns = 5},
      {.size_bytes = 1, .read_ns = 10, .kernel_ns = 100, .release_ns = 5},
      {.size_bytes = 1, .read_ns = 10, .kernel_ns = 20, .release_ns = 5},
      {.size_bytes = 1, .read_ns = 60, .kernel_ns = 50, .release_ns = 5}};
  EXPECT_EQ(uncovered_as_printed_ns(blocks), 130u);
  EXPECT_EQ(uncovered_ns(blocks), 45u);
  EXPECT_EQ(predicted_delay_ns(blocks), 275u);
  EXPECT_EQ(delay_ns({.layers = blocks}, BlockEnds{1, 2, 3, 4}), 275u);
}

// A block that takes long to let go, while the last one computes: nobody waits for it.
TEST(LookupTable, WhatIsLetGoInTheEndDelaysNothing) {
  const std::vector<LayerCosts> blocks = {
      {.size_bytes = 1, .read_ns = 10, .kernel_ns = 50, .release_ns = 300},
      {.size_bytes = 1, .read_ns = 10, .kernel_ns = 40}};
  EXPECT_EQ(uncovered_as_printed_ns(blocks), 260u);
  EXPECT_EQ(uncovered_ns(blocks), 0u);
  EXPECT_EQ(predicted_delay_ns(blocks), 100u);
  EXPECT_EQ(delay_ns({.layers = blocks}, BlockEnds{1, 2}), 100u);
}

TEST(LookupTable, TheWorkedExample) {
  const BlockedNetwork network = six_layers();
  EXPECT_EQ(uncovered_ns(block_costs(network, BlockEnds{2, 3, 6})), 57u);
  EXPECT_EQ(uncovered_ns(block_costs(network, BlockEnds{2, 4, 6})), 26u);
  EXPECT_EQ(uncovered_ns(block_costs(network, BlockEnds{3, 4, 6})), 68u);
  EXPECT_EQ(suggested_blocks(18, 12), 3u);
  const auto table = LookupTable::make(network, 3);
  ASSERT_TRUE(table);
  EXPECT_EQ(table->rows(), 10u);
  const auto plan = table->choose(12);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->ends, (BlockEnds{2, 4, 6}));
  EXPECT_EQ(plan->delay_ns, 338u);
  EXPECT_EQ(plan->peak_bytes, 12u);
  EXPECT_EQ(plan_by_table(network, 12)->delay_ns, 338u);
}

TEST(LookupTable, HasAsManyRowsAsThePapers) {
  BlockedNetwork network;
  network.layers.resize(101, {.size_bytes = 1, .read_ns = 1, .kernel_ns = 1});
  EXPECT_EQ(LookupTable::make(network, 3)->rows(), 4'950u);
  EXPECT_EQ(LookupTable::make(network, 4)->rows(), 161'700u);
  EXPECT_FALSE(LookupTable::make(network, 6)) << "75 million rows";
  EXPECT_FALSE(LookupTable::make(network, 102));
}

TEST(LookupTable, NoRowThatFitsNamesTheLeastBudgetOfSoManyBlocks) {
  const BlockedNetwork network = blocked_network({.read_ns_per_byte = 1}, vgg19());
  const auto plan = plan_by_table(network, 460 * MiB);
  ASSERT_FALSE(plan);
  EXPECT_NE(plan.error().message.find("no cut into 3 blocks"), std::string::npos);
  EXPECT_NE(plan.error().message.find("471.7 MiB"), std::string::npos) << plan.error().message;
  EXPECT_TRUE(plan_blocks(network, 460 * MiB));
}

// ResNet-101 on a disk of 1.5 GB/s, computing 435 ms: with more memory the paper takes fewer
// blocks, and longer. Over all numbers of blocks more memory never hurts.
TEST(LookupTable, MoreMemoryMakesThePapersBlocksSlower) {
  const std::vector<Work> layers = resnet101();
  ASSERT_EQ(layers.size(), 101u);
  Work all;
  for (const Work& layer : layers) add(all, layer);
  EXPECT_NEAR(static_cast<double>(all.size_bytes) / MiB, 170.3, 0.05);
  const BlockedNetwork network =
      blocked_network({.read_ns_per_byte = 1 / 1.5,
                       .read_ns_per_tensor = 52'500,
                       .kernel_ns_per_operation = 435e6 / static_cast<double>(all.operations),
                       .release_ns_per_tensor = 52'500},
                      layers);
  const auto by_table_ms = [&](uint64_t mebibytes) {
    return static_cast<double>(plan_by_table(network, mebibytes * MiB)->delay_ns) / 1e6;
  };
  const auto best_ms = [&](uint64_t mebibytes) {
    return static_cast<double>(plan_blocks(network, mebibytes * MiB)->delay_ns) / 1e6;
  };
  EXPECT_NEAR(by_table_ms(102), 441.8, 0.05);
  EXPECT_NEAR(by_table_ms(119), 490.0, 0.05);
  EXPECT_NEAR(by_table_ms(136), 474.3, 0.05);
  for (const uint64_t mebibytes : {60, 102, 119, 136}) {
    EXPECT_NEAR(best_ms(mebibytes), 435.3, 0.05) << mebibytes;
  }
  EXPECT_NEAR(static_cast<double>(least_budget_bytes(network)) / MiB, 19.05, 0.005);
}

RC_GTEST_PROP(AnyTable, ChoosesWhatIsPredictedBestOfItsCuts, ()) {
  const BlockedNetwork network = any_network(9);
  const auto layers = static_cast<uint32_t>(network.layers.size());
  const auto blocks = pick(1u, layers + 1);
  const auto budget_bytes = pick<uint64_t>(1, 60);
  const auto table = LookupTable::make(network, blocks);
  RC_ASSERT(table.has_value());
  std::optional<uint64_t> least_ns;
  uint64_t rows = 0;
  for_all_partitions(layers, [&](const BlockEnds& ends) {
    if (ends.size() != blocks) return;
    ++rows;
    if (peak_bytes(network, ends) > budget_bytes) return;
    const uint64_t ns = predicted_delay_ns(block_costs(network, ends));
    least_ns = std::min(least_ns.value_or(ns), ns);
  });
  RC_ASSERT(table->rows() == rows);
  const auto plan = table->choose(budget_bytes);
  RC_ASSERT(plan.has_value() == least_ns.has_value());
  if (!plan) return;
  RC_ASSERT(plan->ends.size() == blocks);
  RC_ASSERT(predicted_delay_ns(block_costs(network, plan->ends)) == *least_ns);
  RC_ASSERT(plan->peak_bytes <= budget_bytes);
  RC_ASSERT(plan->delay_ns >= plan_blocks(network, budget_bytes)->delay_ns);
}

RC_GTEST_PROP(AnyTable, PredictsALowerBound, ()) {
  const BlockedNetwork network = any_network(9);
  for_all_partitions(static_cast<uint32_t>(network.layers.size()), [&](const BlockEnds& ends) {
    RC_ASSERT(predicted_delay_ns(block_costs(network, ends)) <= delay_ns(network, ends));
  });
}

}  // namespace
}  // namespace weightpager::budget
