// The paper's YOLOv4 on the paper's machine, on other disks, and beyond what the paper does.
//
// Every delay here comes from the schedule itself under the simulator's clock. Expected values are
// the paper's, or those of a prototype in another language whose author fitted fifteen models like
// ours (yolov4.h is its best one) to the paper's four delays: the range over all fifteen.
#include "tests/pipeline/yolov4.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "runtime/pipeline/pinning.h"
#include "runtime/pipeline/search.h"

namespace weightpager::pipeline {
namespace {

using Costs = std::vector<UnitCosts>;

uint64_t mib(double mebibytes) { return static_cast<uint64_t>(mebibytes * MiB); }

uint64_t largest_layer_bytes() {
  uint64_t largest = 0;
  for (const Yolov4Layer& layer : yolov4_layers) largest = std::max(largest, layer.size_bytes);
  return largest;
}

double simulated_ms(const Costs& costs, const ScheduleSettings& settings,
                    const Arrivals& arrivals = {}) {
  auto schedule = Schedule::make(work_units(costs), settings);
  EXPECT_TRUE(schedule) << schedule.error().message;
  return static_cast<double>(simulate(*schedule, costs, arrivals).back().delay_ns()) / 1e6;
}

double two_stage_ms(const Costs& costs, uint64_t ring_bytes) {
  return simulated_ms(costs, {.pipeline = Pipeline::two_stage, .rings = {ring_bytes, 0}});
}

TEST(Yolov4, IsThePapersNetwork) {
  uint64_t total_bytes = 0, operations = 0;
  int largest = 0, below_a_tenth = 0;
  for (const Yolov4Layer& layer : yolov4_layers) {
    total_bytes += layer.size_bytes;
    operations += layer.operations;
    largest += layer.size_bytes == largest_layer_bytes();
    below_a_tenth += layer.size_bytes < mib(0.1);
  }
  EXPECT_EQ(std::size(yolov4_layers), 162u);
  EXPECT_NEAR(static_cast<double>(total_bytes) / MiB, 245.8, 0.05);
  EXPECT_NEAR(static_cast<double>(largest_layer_bytes()) / MiB, 18.0, 0.05);
  EXPECT_EQ(largest, 6);
  EXPECT_EQ(below_a_tenth, 75);
  EXPECT_NEAR(static_cast<double>(operations) / 1e9, 128.4, 0.05);
}

TEST(Yolov4, HasThePapersDelaysWithinTwoPercent) {
  const Costs costs = yolov4_costs();
  const uint64_t largest = largest_layer_bytes();
  const auto expect_ms = [&](Pipeline pipeline, Rings rings, double paper_ms) {
    EXPECT_NEAR(simulated_ms(costs, {.pipeline = pipeline, .rings = rings}), paper_ms,
                0.02 * paper_ms)
        << name(pipeline);
  };
  expect_ms(Pipeline::sequential, {largest, largest}, 244.7);
  expect_ms(Pipeline::synchronous, {2 * largest, 2 * largest}, 198.9);
  expect_ms(Pipeline::asynchronous, {largest, largest}, 181.2);
  expect_ms(Pipeline::two_stage, {largest, 0}, 195.3);
  EXPECT_NEAR(simulated_ms(costs, {.pipeline = Pipeline::preload}, {.inferences = 2}), 160.8, 0.01);
}

TEST(Yolov4, TradesMemoryForDelayAsThePrototype) {
  const Costs costs = yolov4_costs();
  const std::pair<double, double> curve[] = {{18.02, 195.9}, {20, 189.0}, {22, 181.4},
                                             {24, 178.8},    {27, 174.0}, {30, 172.4},
                                             {36, 170.0},    {40, 163.3}, {45, 160.85}};
  for (const auto& [ring_mib, expected_ms] : curve) {
    EXPECT_NEAR(two_stage_ms(costs, mib(ring_mib)), expected_ms, 0.06) << ring_mib;
  }
}

// Paper: 52.8 MB for 0.4 % (two-stage), 2 × 41.45 MB for 1.7 % (asynchronous). Prototype: 48 MiB
// for the latter on a coarse grid.
TEST(Yolov4, NeedsSmallerWindowsThanThePaperForMinimalDelay) {
  const Costs costs = yolov4_costs();
  const Rings two_stage = smallest_rings_without_stalls(Pipeline::two_stage, costs, 0.004);
  EXPECT_LT(two_stage.bytes(), mib(52.8));
  EXPECT_LE(two_stage_ms(costs, two_stage.host_bytes), 161.5);
  const auto rings = smallest_rings_for_delay(Pipeline::asynchronous, costs, 163'500'000);
  ASSERT_TRUE(rings);
  EXPECT_LE(rings->bytes(), mib(48));
  EXPECT_LE(simulated_ms(costs, {.pipeline = Pipeline::asynchronous, .rings = *rings}), 163.5);
}

// The curve falls with every step, as it does not with rings that leave out their end.
TEST(Yolov4, DelayNeverGrowsWithTheWindow) {
  const Costs costs = yolov4_costs();
  double before_ms = 1e9;
  for (uint64_t bytes = largest_layer_bytes(); bytes < mib(64); bytes += mib(0.25)) {
    const double delay_ms = two_stage_ms(costs, bytes);
    EXPECT_LE(delay_ms, before_ms) << bytes;
    before_ms = delay_ms;
  }
}

struct Tiled {
  double gigabytes_per_s = 0;
  uint64_t tile_bytes_max = 0;
  bool has_tile_costs = false;  // 0.05 ms per read, 0.02 ms per kernel
  double kernels = 1;           // how long they take
};

Costs tiled(const Tiled& how) {
  std::vector<TileableLayer> layers = yolov4();
  const Costs costs = yolov4_costs(how.gigabytes_per_s);
  for (size_t i = 0; i < layers.size(); ++i) {
    layers[i].costs = costs[i];
    layers[i].costs.kernel_ns =
        static_cast<uint64_t>(how.kernels * static_cast<double>(costs[i].kernel_ns));
  }
  TileSettings settings{.tile_bytes_max = round_down(how.tile_bytes_max, 4096)};
  if (how.has_tile_costs) {
    settings.read_ns_per_tile = 50'000;
    settings.kernel_ns_per_tile = 20'000;
  }
  return costs_of(split_into_tiles(layers, settings));
}

// Our tiles are equal, and the first of a layer costs nothing extra: up to half a millisecond less
// than the prototype's.
constexpr double tiles_differ_ms = 0.5;
constexpr double rounded_ms = 0.06;

struct Cell {
  double low_ms, high_ms;
};

void expect_in(double actual_ms, const Cell& cell, double below_ms = rounded_ms) {
  EXPECT_GE(actual_ms, cell.low_ms - below_ms);
  EXPECT_LE(actual_ms, cell.high_ms + rounded_ms);
}

TEST(Yolov4, OnOtherDisksIsInThePrototypesRanges) {
  struct Row {
    double gigabytes_per_s;
    Cell ring_18, ring_36, ring_53, tiles_4, tiles_18, tiles_36, large_tiles_9;
  };
  const Row rows[] = {
      {7,
       {181.9, 183.6},
       {165.2, 166.8},
       {160.9, 160.9},
       {160.9, 161.5},
       {160.9, 160.9},
       {160.9, 160.9},
       {162.8, 165.4}},
      {5,
       {191.4, 193.2},
       {168.4, 172.4},
       {160.9, 161.2},
       {162.2, 169.9},
       {160.9, 162.3},
       {160.9, 160.9},
       {166.9, 174.3}},
      {3,
       {213.5, 216.4},
       {181.9, 187.6},
       {163.7, 170.9},
       {183.2, 193.2},
       {172.0, 182.4},
       {161.9, 169.4},
       {189.5, 198.5}},
      {2,
       {242.4, 246.7},
       {200.8, 208.9},
       {178.4, 188.1},
       {213.0, 223.2},
       {197.4, 207.9},
       {178.3, 189.7},
       {221.0, 231.5}},
      {1,
       {335.5, 340.4},
       {291.6, 308.2},
       {266.3, 280.3},
       {313.3, 332.6},
       {288.5, 309.0},
       {269.4, 289.7},
       {322.8, 339.2}},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.gigabytes_per_s);
    const Costs whole = yolov4_costs(row.gigabytes_per_s);
    expect_in(two_stage_ms(whole, largest_layer_bytes()), row.ring_18);
    expect_in(two_stage_ms(whole, mib(36)), row.ring_36);
    expect_in(two_stage_ms(whole, mib(52.8)), row.ring_53);
    const Costs tiles = tiled({row.gigabytes_per_s, 2 * MiB});
    expect_in(two_stage_ms(tiles, mib(4)), row.tiles_4, tiles_differ_ms);
    expect_in(two_stage_ms(tiles, mib(18)), row.tiles_18, tiles_differ_ms);
    expect_in(two_stage_ms(tiles, mib(36)), row.tiles_36, tiles_differ_ms);
    const Costs large_tiles = tiled({row.gigabytes_per_s, mib(4.6), true});
    expect_in(two_stage_ms(large_tiles, mib(9.2)), row.large_tiles_9, tiles_differ_ms);
  }
}

TEST(Yolov4, TilesNeedAWindowOfTwoTiles) {
  const std::pair<double, double> tiles_ms[] = {{9.1, 164.9}, {4.6, 161.9}, {2, 160.9}, {1, 160.9}};
  for (const auto& [tile_mib, expected_ms] : tiles_ms) {
    EXPECT_NEAR(two_stage_ms(tiled({7, mib(tile_mib)}), mib(2 * tile_mib)), expected_ms, 0.2)
        << tile_mib;
  }
  // With what tiles cost: 162.8, 163.6, 166.2 where the first tile costs extra as well.
  const std::pair<double, double> costly_ms[] = {{4.6, 162.8}, {2, 163.6}, {1, 166.2}};
  for (const auto& [tile_mib, expected_ms] : costly_ms) {
    EXPECT_NEAR(two_stage_ms(tiled({7, mib(tile_mib), true}), mib(2 * tile_mib)), expected_ms, 0.7)
        << tile_mib;
  }
  const std::pair<double, double> slower_disk_ms[] = {{4, 187.9}, {18, 176.1}, {36, 165.2}};
  for (const auto& [ring_mib, expected_ms] : slower_disk_ms) {
    EXPECT_NEAR(two_stage_ms(tiled({3, 2 * MiB, true}), mib(ring_mib)), expected_ms, 0.5);
  }
}

// What the project holds itself to: 4 to 9 MiB at two percent, with what tiles cost.
TEST(Yolov4, RunsInFourMiBWithinTwoPercent) {
  EXPECT_LE(two_stage_ms(tiled({7, 2 * MiB, true}), mib(4)), 1.02 * 160.8);
  EXPECT_LE(two_stage_ms(tiled({7, mib(4.5), true}), mib(9)), 1.02 * 160.8);
}

TEST(Yolov4, WithKernelsFourTimesAsFast) {
  const Costs whole = tiled({.gigabytes_per_s = 7, .tile_bytes_max = 36 * MiB, .kernels = 0.25});
  const Costs tiles = tiled({.gigabytes_per_s = 7, .tile_bytes_max = 2 * MiB, .kernels = 0.25});
  struct Row {
    double ring_mib, whole_ms, tiles_ms;
  };
  for (const Row& row :
       {Row{18.02, 64.9, 53.0}, Row{36, 53.0, 48.5}, Row{52.8, 47.8, 46.0}, Row{72, 44.5, 42.7}}) {
    EXPECT_NEAR(two_stage_ms(whole, mib(row.ring_mib)), row.whole_ms, 0.06) << row.ring_mib;
    EXPECT_NEAR(two_stage_ms(tiles, mib(row.ring_mib)), row.tiles_ms, 0.25) << row.ring_mib;
  }
}

// On a disk of 1 GB/s, with time between inferences to fill the ring.
TEST(Yolov4, ReadsAheadWhileIdle) {
  const Costs costs = yolov4_costs(1);
  const std::pair<double, double> rows[] = {{72, 241}, {120, 198}, {180, 160.8}};
  for (const auto& [ring_mib, expected_ms] : rows) {
    ScheduleSettings settings{.pipeline = Pipeline::two_stage, .rings = {mib(ring_mib), 0}};
    const Arrivals idle{.inferences = 3, .idle_ns = 1'000'000'000};
    EXPECT_NEAR(simulated_ms(costs, settings, idle), 266.3, 0.06);
    settings.reads_across_inferences = true;
    EXPECT_NEAR(simulated_ms(costs, settings, idle), expected_ms, 0.5) << ring_mib;
  }
}

// Back to back it hides only filling and draining.
TEST(Yolov4, ReadsAcrossInferencesBackToBack) {
  const Costs costs = yolov4_costs(0.5);
  ScheduleSettings settings{.pipeline = Pipeline::two_stage, .rings = {mib(52.8), 0}};
  EXPECT_NEAR(simulated_ms(costs, settings, {.inferences = 4}), 523.0, 0.06);
  settings.reads_across_inferences = true;
  EXPECT_NEAR(simulated_ms(costs, settings, {.inferences = 4}), 520.9, 0.06);
}

// Not slower than the prototype, which pinned greedily at seven sizes of ring.
TEST(Yolov4, PinsWhatTheDiskIsTooSlowFor) {
  struct Row {
    double gigabytes_per_s, budget_mib, prototype_ms;
  };
  for (const Row& row : {Row{1, 120, 192.5}, Row{1, 180, 160.9}, Row{0.5, 36, 497},
                         Row{0.5, 52.8, 466}, Row{0.5, 120, 339}, Row{0.5, 180, 202}}) {
    const Costs costs = yolov4_costs(row.gigabytes_per_s);
    const auto plan = plan_window(Pipeline::two_stage, costs, mib(row.budget_mib));
    ASSERT_TRUE(plan);
    const auto schedule = Schedule::make(work_units(costs, plan->is_pinned),
                                         {.pipeline = Pipeline::two_stage, .rings = plan->rings});
    ASSERT_TRUE(schedule);
    const Timeline second = simulate(*schedule, costs, {.inferences = 2}).back();
    EXPECT_LE(static_cast<double>(second.delay_ns()) / 1e6, row.prototype_ms)
        << row.gigabytes_per_s << " GB/s, " << row.budget_mib << " MiB";
    EXPECT_LE(plan->window_bytes(), mib(row.budget_mib));
  }
}

}  // namespace
}  // namespace weightpager::pipeline
