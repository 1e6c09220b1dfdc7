// Windows by budget: within it, as the equations say, from the smallest tile to everything pinned.
#include "runtime/budget/window_plans.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "pager/base/units.h"
#include "tests/pipeline/yolov4.h"

namespace weightpager::budget {
namespace {

using pipeline::Pipeline;
using pipeline::TileableLayer;

std::vector<TileableLayer> yolov4_in_pages() {
  std::vector<TileableLayer> layers = pipeline::yolov4();
  for (TileableLayer& layer : layers) {
    layer.costs.size_bytes = round_up(layer.costs.size_bytes, os_page_bytes);
  }
  return layers;
}

TEST(WindowPlans, KeepToEveryBudget) {
  const std::vector<TileableLayer> layers = yolov4_in_pages();
  uint64_t model_bytes = 0, kernels_ns = 0;
  for (const TileableLayer& layer : layers) {
    model_bytes += layer.costs.size_bytes;
    kernels_ns += layer.costs.kernel_ns;
  }
  const WindowPlans plans = WindowPlans::make(layers, {});
  const std::vector<Step>& steps = plans.delay_steps().steps();
  EXPECT_GT(steps.size(), 8u);
  EXPECT_LE(plans.delay_steps().least_bytes(), 2 * MiB) << "tiles, not the layer of 18 MiB";
  EXPECT_EQ(steps.back().delay_ns, kernels_ns) << "everything is pinned";
  EXPECT_LE(steps.back().budget_bytes, model_bytes);
  for (const Step& step : steps) {
    const WindowChoice& choice = plans.choice(step.budget_bytes);
    EXPECT_LE(choice.plan.window_bytes(), step.budget_bytes);
    EXPECT_EQ(choice.plan.delay_ns, step.delay_ns);
    const auto later = pipeline::after_first_pass(choice.units, choice.plan.is_pinned);
    EXPECT_EQ(pipeline::delay_ns(Pipeline::two_stage, later, choice.plan.rings), step.delay_ns);
  }
}

// The least is the largest tile there must be: so many channels of some layer, in whole pages, and
// the page that a tile may begin in.
TEST(WindowPlans, TheLeastIsTheSmallestTile) {
  const std::vector<TileableLayer> layers = yolov4_in_pages();
  uint64_t least_bytes = 0;
  for (const TileableLayer& layer : layers) {
    const uint64_t bytes = layer.costs.size_bytes, channels = layer.output_channels;
    uint64_t largest = 0;
    for (uint64_t first = 0; first < channels; first += layer.channel_step) {
      const uint64_t end = std::min<uint64_t>(first + layer.channel_step, channels);
      const uint64_t tile = bytes * end / channels - bytes * first / channels;
      largest = std::max(largest, round_up(tile, os_page_bytes) + os_page_bytes);
    }
    least_bytes = std::max(least_bytes, std::min(largest, bytes));
  }
  ASSERT_LT(least_bytes, 1 * MiB);
  const WindowPlans plans = WindowPlans::make(layers, {});
  EXPECT_EQ(plans.delay_steps().least_bytes(), least_bytes);
  EXPECT_LE(plans.choice(least_bytes).plan.window_bytes(), least_bytes);
}

// Once nothing waits any more, a larger budget still reads less.
TEST(WindowPlans, LargerBudgetsLeaveTheDiskToOthers) {
  const WindowPlans plans = WindowPlans::make(yolov4_in_pages(), {});
  const uint64_t least_bytes = plans.delay_steps().least_bytes();
  uint64_t before_bytes = UINT64_MAX;
  for (const uint64_t budget_bytes : {least_bytes, 60 * MiB, 120 * MiB, 180 * MiB, 300 * MiB}) {
    const WindowChoice& choice = plans.choice(budget_bytes);
    EXPECT_LE(choice.plan.window_bytes(), budget_bytes);
    EXPECT_EQ(choice.plan.delay_ns, plans.delay_steps().delay_ns(budget_bytes));
    EXPECT_LT(choice.plan.bytes_per_pass, before_bytes);
    before_bytes = choice.plan.bytes_per_pass;
  }
  EXPECT_EQ(before_bytes, 0u);
}

// Where reading takes from computing, no two budgets with different reads are alike.
TEST(WindowPlans, ABytesProcessorTimeCounts) {
  constexpr double ns_per_byte = 0.25;
  const std::vector<TileableLayer> layers = yolov4_in_pages();
  const WindowPlans free_of_charge = WindowPlans::make(layers, {});
  const WindowPlans plans = WindowPlans::make(layers, {.processor_ns_per_byte = ns_per_byte});
  EXPECT_GT(plans.delay_steps().steps().size(), free_of_charge.delay_steps().steps().size());
  for (const Step& step : plans.delay_steps().steps()) {
    const WindowChoice& choice = plans.choice(step.budget_bytes);
    const auto reading_ns =
        static_cast<uint64_t>(ns_per_byte * static_cast<double>(choice.plan.bytes_per_pass));
    EXPECT_EQ(step.delay_ns, choice.plan.delay_ns + reading_ns);
  }
  EXPECT_EQ(plans.delay_steps().steps().back().delay_ns,
            free_of_charge.delay_steps().steps().back().delay_ns);
}

// A slow disk: between a ring alone and everything pinned, each mebibyte saves its read.
TEST(WindowPlans, OnASlowDiskPinsSaveTime) {
  std::vector<TileableLayer> layers = yolov4_in_pages();
  for (TileableLayer& layer : layers) layer.costs.read_ns = layer.costs.size_bytes;  // 1 GB/s
  const StepFunction stairs = WindowPlans::make(layers, {}).delay_steps();
  const auto ms = [&](uint64_t mebibytes) {
    return static_cast<double>(stairs.delay_ns(mebibytes * MiB)) / 1e6;
  };
  EXPECT_GT(ms(20), 250);
  EXPECT_LT(ms(120), 200) << "a ring alone takes 266 ms";
  EXPECT_LT(ms(200), 165);
}

}  // namespace
}  // namespace weightpager::budget
