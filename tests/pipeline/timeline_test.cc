// The equations: the paper's five-layer example, its printed formulas, and Algorithm 1 taken
// literally.
#include "runtime/pipeline/timeline.h"

#include <gtest/gtest.h>

#include <numeric>

#include "tests/pipeline/random_network.h"

namespace weightpager::pipeline {
namespace {

using Costs = std::vector<UnitCosts>;

constexpr uint64_t MB = 1'000'000;
uint64_t ms(double milliseconds) { return static_cast<uint64_t>(milliseconds * 1e6 + 0.5); }

// Figures 10 and 11 of the paper, with numbers that fit everything that it says about them: sizes
// 1, 2, 1, 3, 1 MB, read in as many milliseconds and copied in a quarter of that.
Costs five_layers() {
  Costs costs;
  const double kernels_ms[] = {2.5, 2.5, 2.5, 3, 2};
  const int sizes[] = {1, 2, 1, 3, 1};
  for (int i = 0; i < 5; ++i) {
    costs.push_back({.size_bytes = sizes[i] * MB,
                     .read_ns = ms(sizes[i]),
                     .copy_ns = ms(sizes[i] / 4.0),
                     .kernel_ns = ms(kernels_ms[i])});
  }
  return costs;
}

uint64_t five_layers_ns(Pipeline pipeline, uint64_t host_mb, uint64_t device_mb = 0) {
  return delay_ns(pipeline, five_layers(), {host_mb * MB, device_mb * MB});
}

struct Row {
  double read_start, read_finish, copy_start, copy_finish, kernel_start, kernel_finish;
};

void expect_rows(const Timeline& timeline, size_t first, const std::vector<Row>& rows) {
  ASSERT_EQ(timeline.units.size(), first + rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    const UnitTimes& unit = timeline.units[first + i];
    const Row& row = rows[i];
    EXPECT_EQ(unit.read, (TimeSpan{ms(row.read_start), ms(row.read_finish)})) << "layer " << i + 1;
    EXPECT_EQ(unit.copy, (TimeSpan{ms(row.copy_start), ms(row.copy_finish)})) << "layer " << i + 1;
    EXPECT_EQ(unit.kernel, (TimeSpan{ms(row.kernel_start), ms(row.kernel_finish)}))
        << "layer " << i + 1;
  }
}

TEST(Timeline, DelaysOfTheFiveLayerExample) {
  EXPECT_EQ(five_layers_ns(Pipeline::preload, 0), ms(12.5));
  EXPECT_EQ(five_layers_ns(Pipeline::sequential, 3, 3), ms(22.5));
  EXPECT_EQ(five_layers_ns(Pipeline::synchronous, 6, 6), ms(16.0));
  EXPECT_EQ(five_layers_ns(Pipeline::asynchronous, 4, 4), ms(13.75));
  EXPECT_EQ(five_layers_ns(Pipeline::asynchronous, 3, 3), ms(14.75));
  EXPECT_EQ(five_layers_ns(Pipeline::asynchronous, 5, 5), ms(13.75));
  EXPECT_EQ(five_layers_ns(Pipeline::asynchronous, 8, 8), ms(13.75));
  EXPECT_EQ(five_layers_ns(Pipeline::two_stage, 3), ms(17.5));
  EXPECT_EQ(five_layers_ns(Pipeline::two_stage, 4), ms(14.0));
  EXPECT_EQ(five_layers_ns(Pipeline::two_stage, 5), ms(14.0));
  EXPECT_EQ(five_layers_ns(Pipeline::two_stage, 8), ms(13.5));
}

// Cycles of 1, 2, 2.5, 3, 2.5, 3, 2: in the fourth the read of layer 4 is the longest.
TEST(Timeline, SynchronousCyclesOfTheFiveLayerExample) {
  expect_rows(timeline(Pipeline::synchronous, five_layers(), {6 * MB, 6 * MB}), 0,
              {{0, 1, 1, 1.25, 3, 5.5},
               {1, 3, 3, 3.5, 5.5, 8},
               {3, 4, 5.5, 5.75, 8.5, 11},
               {5.5, 8.5, 8.5, 9.25, 11, 14},
               {8.5, 9.5, 11, 11.25, 14, 16}});
}

// The copy of layer 5 waits from 8 to 8.75, when kernel 3 frees 1 MB on the device.
TEST(Timeline, AsynchronousFiveLayerExample) {
  expect_rows(timeline(Pipeline::asynchronous, five_layers(), {4 * MB, 4 * MB}), 0,
              {{0, 1, 1, 1.25, 1.25, 3.75},
               {1, 3, 3, 3.5, 3.75, 6.25},
               {3, 4, 4, 4.25, 6.25, 8.75},
               {4, 7, 7, 7.75, 8.75, 11.75},
               {7, 8, 8.75, 9, 11.75, 13.75}});
  const Timeline smallest = timeline(Pipeline::asynchronous, five_layers(), {3 * MB, 3 * MB});
  Timeline last_two = smallest;
  last_two.units.erase(last_two.units.begin(), last_two.units.begin() + 3);
  expect_rows(last_two, 0,
              {{4.25, 7.25, 8.75, 9.5, 9.5, 12.5}, {9.5, 10.5, 12.5, 12.75, 12.75, 14.75}});
}

// The read of layer 4 waits from 4 to 6; no kernel runs from 8.5 to 9.
TEST(Timeline, TwoStageFiveLayerExample) {
  expect_rows(timeline(Pipeline::two_stage, five_layers(), {4 * MB, 0}), 0,
              {{0, 1, 0, 0, 1, 3.5},
               {1, 3, 0, 0, 3.5, 6},
               {3, 4, 0, 0, 6, 8.5},
               {6, 9, 0, 0, 9, 12},
               {9, 10, 0, 0, 12, 14}});
  const Timeline smallest = timeline(Pipeline::two_stage, five_layers(), {3 * MB, 0});
  const double kernels_end_ms[] = {3.5, 6, 8.5, 14.5, 17.5};
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(smallest.units[i].kernel.finish_ns, ms(kernels_end_ms[i]));
  }
}

std::vector<uint64_t> ends_of_kernels(const Costs& costs, uint64_t ring_bytes) {
  std::vector<uint64_t> ends_ns;
  for (const UnitTimes& it :
       timeline(Pipeline::two_stage, costs, {.host_bytes = ring_bytes}).units) {
    ends_ns.push_back(it.kernel.finish_ns);
  }
  return ends_ns;
}

// The second read takes half of the processors while it lasts, from 100 to 200: the first kernel
// loses 50 of its 100 to it, and ends after that.
TEST(Timeline, ReadsTakeFromTheKernelsBesideThem) {
  const Costs costs = {{.size_bytes = 1, .read_ns = 100, .kernel_ns = 100},
                       {.size_bytes = 1, .read_ns = 100, .kernel_ns = 10, .taken_ns = 50},
                       {.kernel_ns = 40}};
  EXPECT_EQ(ends_of_kernels(costs, 2), (std::vector<uint64_t>{250, 260, 300}));
  // Half of it is beside the kernel if the kernel is over before the read: it loses as much as it
  // got ahead.
  Costs short_kernel = costs;
  short_kernel[0].kernel_ns = 25;
  EXPECT_EQ(ends_of_kernels(short_kernel, 2), (std::vector<uint64_t>{150, 210, 250}));
}

// In a ring for one there is never a kernel beside a read: waiting is all there is.
TEST(Timeline, ReadsTakeNothingWhileKernelsWait) {
  Costs costs = five_layers();
  for (UnitCosts& it : costs) it.taken_ns = it.read_ns / 2;
  for (UnitCosts& it : costs) it.size_bytes = 1;
  EXPECT_EQ(delay_ns(Pipeline::two_stage, costs, {.host_bytes = 1}), ms(8 + 12.5));
}

// Twice as much as the read lasts: kernels keep a tenth for as long as it takes, here from 10 to
// 410. The third kernel ends within that.
TEST(Timeline, ReadsThatTakeMoreThanTheyLastTakeItLater) {
  const Costs costs = {{.size_bytes = 1, .read_ns = 10, .kernel_ns = 1},
                       {.size_bytes = 1, .read_ns = 180, .kernel_ns = 10, .taken_ns = 360},
                       {.kernel_ns = 5},
                       {.kernel_ns = 40}};
  EXPECT_EQ(ends_of_kernels(costs, 2), (std::vector<uint64_t>{20, 290, 340, 443}));
}

// Wherever the waiting is: what is taken is lost or waited for, and no more than that.
TEST(Timeline, WhatReadsTakeIsBetweenNothingAndAllOfIt) {
  RandomNetworks random(5);
  int between = 0;
  for (int round = 0; round < 2'000; ++round) {
    const Costs alone = random.costs();
    Costs costs = alone;
    for (UnitCosts& it : costs) it.taken_ns = it.size_bytes > 0 ? random.up_to(it.read_ns / 2) : 0;
    const Rings rings = random.rings(Pipeline::two_stage, work_units(costs));
    const uint64_t without_ns = delay_ns(Pipeline::two_stage, alone, rings);
    const uint64_t delay_with_ns = delay_ns(Pipeline::two_stage, costs, rings);
    Costs all_lost = alone;
    for (size_t i = 0; i < costs.size(); ++i) all_lost[i].kernel_ns += costs[i].taken_ns;
    // Each kernel's end is rounded.
    const uint64_t rounding_ns = costs.size();
    EXPECT_GE(delay_with_ns + rounding_ns, without_ns);
    EXPECT_GE(delay_with_ns + rounding_ns, least_delay_ns(costs));
    between += delay_with_ns > without_ns &&
               delay_with_ns < delay_ns(Pipeline::two_stage, all_lost, rings);
  }
  EXPECT_GT(between, 200);
}

// Equation (7) as it is printed, which needs three layers.
TEST(Timeline, SynchronousIsEquation7) {
  RandomNetworks random(3);
  int compared = 0;
  for (int round = 0; round < 20'000; ++round) {
    const Costs costs = random.costs();
    const size_t n = costs.size();
    if (n < 3) continue;
    const auto r = [&](size_t i) { return costs[i - 1].read_ns; };
    const auto c = [&](size_t i) { return costs[i - 1].copy_ns; };
    const auto k = [&](size_t i) { return costs[i - 1].kernel_ns; };
    uint64_t delay = r(1) + std::max(r(2), c(1)) + std::max(c(n), k(n - 1)) + k(n);
    for (size_t i = 1; i <= n - 2; ++i) delay += std::max({r(i + 2), c(i + 1), k(i)});
    ASSERT_EQ(delay_ns(Pipeline::synchronous, costs, {}), delay);
    ++compared;
  }
  EXPECT_GT(compared, 15'000);
}

TEST(Timeline, SequentialAndPreloadAreSums) {
  RandomNetworks random(4);
  for (int round = 0; round < 1000; ++round) {
    const Costs costs = random.costs();
    uint64_t all = 0, kernels = 0;
    for (const UnitCosts& unit : costs) {
      all += unit.read_ns + unit.copy_ns + unit.kernel_ns;
      kernels += unit.kernel_ns;
    }
    ASSERT_EQ(delay_ns(Pipeline::sequential, costs, {}), all);
    ASSERT_EQ(delay_ns(Pipeline::preload, costs, {}), kernels);
  }
}

// Algorithm 1 of the paper, line by line, on a clock that jumps from one end of an operation to the
// next. Corrected where it must be: what was not requested is not finished, indices end at N, and
// after the last request the operations in flight are waited for.
std::vector<UnitTimes> algorithm_1(const Costs& costs, uint64_t free_cpu, uint64_t free_gpu) {
  const size_t n = costs.size();
  std::vector<UnitTimes> times(n);
  uint64_t now = 0, disk_idle = 0, copy_engine_idle = 0, execution_engine_idle = 0;
  size_t h = 0, i = 0, j = 0, k = 0;
  const auto request = [&](TimeSpan& operation, uint64_t& engine_idle, uint64_t duration) {
    operation.start_ns = std::max(now, engine_idle);
    operation.finish_ns = engine_idle = operation.start_ns + duration;
  };
  while (h < n) {
    bool has_changed = false;
    if (h < k && times[h].kernel.finish_ns <= now) {  // lines 3 to 6
      free_gpu += costs[h].size_bytes;
      ++h;
      has_changed = true;
    }
    if (i < n && free_cpu >= costs[i].size_bytes) {  // lines 7 to 12
      request(times[i].read, disk_idle, costs[i].read_ns);
      free_cpu -= costs[i].size_bytes;
      ++i;
      has_changed = true;
    }
    if (j < i && times[j].read.finish_ns <= now && free_gpu >= costs[j].size_bytes) {  // 13 to 18
      request(times[j].copy, copy_engine_idle, costs[j].copy_ns);
      free_gpu -= costs[j].size_bytes;
      ++j;
      has_changed = true;
    }
    if (k < j && times[k].copy.finish_ns <= now) {  // lines 19 to 24
      request(times[k].kernel, execution_engine_idle, costs[k].kernel_ns);
      free_cpu += costs[k].size_bytes;
      ++k;
      has_changed = true;
    }
    if (has_changed) continue;
    uint64_t next = UINT64_MAX;
    const auto consider = [&](const TimeSpan& operation) {
      if (operation.finish_ns > now) next = std::min(next, operation.finish_ns);
    };
    for (size_t u = 0; u < i; ++u) consider(times[u].read);
    for (size_t u = 0; u < j; ++u) consider(times[u].copy);
    for (size_t u = 0; u < k; ++u) consider(times[u].kernel);
    if (next == UINT64_MAX) break;  // stands still: a layer is larger than its buffer
    now = next;
  }
  return times;
}

TEST(Timeline, AsynchronousIsAlgorithm1) {
  RandomNetworks random(5);
  for (int round = 0; round < 20'000; ++round) {
    const Costs costs = random.costs();
    const Rings rings = random.rings(Pipeline::asynchronous, work_units(costs));
    const std::vector<UnitTimes> expected =
        algorithm_1(costs, rings.host_bytes, rings.device_bytes);
    const Timeline actual = timeline(Pipeline::asynchronous, costs, rings);
    ASSERT_EQ(actual.finish_ns, expected.back().kernel.finish_ns) << "round " << round;
    for (size_t i = 0; i < costs.size(); ++i) {
      ASSERT_EQ(actual.units[i].kernel, expected[i].kernel) << "round " << round;
      if (costs[i].size_bytes == 0) continue;
      ASSERT_EQ(actual.units[i].read, expected[i].read) << "round " << round;
      ASSERT_EQ(actual.units[i].copy, expected[i].copy) << "round " << round;
    }
  }
}

// Mirrored rings: more memory is never slower.
TEST(Timeline, DelayNeverGrowsWithTheRings) {
  RandomNetworks random(6);
  for (int round = 0; round < 2'000; ++round) {
    const Costs costs = random.costs();
    const uint64_t total = bytes_per_pass(costs);
    for (const Pipeline pipeline : {Pipeline::asynchronous, Pipeline::two_stage}) {
      const Rings smallest = smallest_rings(pipeline, work_units(costs));
      for (uint64_t Rings::*ring : {&Rings::host_bytes, &Rings::device_bytes}) {
        Rings rings = random.rings(pipeline, work_units(costs));
        uint64_t before = UINT64_MAX;
        for (rings.*ring = smallest.*ring; rings.*ring <= total; ++(rings.*ring)) {
          const uint64_t delay = delay_ns(pipeline, costs, rings);
          ASSERT_LE(delay, before);
          before = delay;
        }
      }
    }
  }
}

// Networks that compute first and read then: no ring holds what could be read beside the kernels.
TEST(Timeline, NoPassIsShorterThanItsWorstRow) {
  constexpr uint64_t ns_per_byte = 30;
  RandomNetworks random(21);
  int told_more = 0;
  for (int round = 0; round < 300; ++round) {
    Costs costs;
    for (uint64_t i = random.up_to(5); i > 0; --i)
      costs.push_back({.kernel_ns = random.up_to(500)});
    for (uint64_t i = 1 + random.up_to(9); i > 0; --i) {
      const uint64_t bytes = 1 + random.up_to(7);
      costs.push_back(
          {.size_bytes = bytes, .read_ns = ns_per_byte * bytes, .kernel_ns = random.up_to(50)});
    }
    const Rings rings = random.rings(Pipeline::two_stage, work_units(costs));
    const uint64_t least_ns = least_delay_in_order_ns(costs, ns_per_byte * rings.host_bytes);
    for (const Inferences inferences : {Inferences::one_by_one, Inferences::in_a_row}) {
      ASSERT_LE(least_ns, delay_ns(Pipeline::two_stage, costs, rings, inferences)) << round;
    }
    told_more += least_ns > least_delay_ns(costs);
  }
  EXPECT_GT(told_more, 20);
}

// Costs are measured, and what was measured of nothing is not nothing.
TEST(Timeline, WithoutBytesNothingIsReadOrCopied) {
  Costs costs = five_layers();
  costs[3].size_bytes = 0;
  const Costs later = after_first_pass(five_layers(), {false, false, false, true, false});
  for (const Pipeline pipeline : all_pipelines) {
    EXPECT_EQ(timeline(pipeline, costs, {3 * MB, 3 * MB}).units,
              timeline(pipeline, later, {3 * MB, 3 * MB}).units)
        << name(pipeline);
  }
}

TEST(Timeline, PinnedUnitsCostTheirKernelsOnly) {
  const Costs later = after_first_pass(five_layers(), {false, false, false, true, false});
  EXPECT_EQ(bytes_per_pass(five_layers()), 8 * MB);
  EXPECT_EQ(bytes_per_pass(later), 5 * MB);
  EXPECT_EQ(delay_ns(Pipeline::preload, later, {}), ms(12.5));
  EXPECT_EQ(delay_ns(Pipeline::two_stage, later, {2 * MB, 0}), ms(16.5));
  EXPECT_EQ(delay_ns(Pipeline::two_stage, later, {3 * MB, 0}), ms(13.5));
}

}  // namespace
}  // namespace weightpager::pipeline
