// Bisection against trying every size, and the paper's sweep.
#include "runtime/pipeline/search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <vector>

#include "pager/base/assert.h"
#include "pager/base/units.h"
#include "tests/pipeline/random_network.h"

namespace weightpager::pipeline {
namespace {

using Costs = std::vector<UnitCosts>;

/// One measured window.
struct SweepPoint {
  uint64_t window_bytes = 0;
  uint64_t delay_ns = 0;
};

struct Sweep {
  std::vector<SweepPoint> points;
  /// Into `points`: the first whose delay is within the tolerance of the least.
  size_t chosen = 0;
};

/// The paper's two phases: measures windows from `first_bytes` to `last_bytes`, inclusive, in
/// steps; then goes back to the smallest that is good enough. `measure_ns`: the mean or median
/// delay with a window of that many bytes.
Sweep sweep_windows(uint64_t first_bytes, uint64_t last_bytes, uint64_t step_bytes,
                    double tolerance, const std::function<uint64_t(uint64_t)>& measure_ns) {
  WP_ASSERT(first_bytes <= last_bytes && step_bytes > 0);
  Sweep sweep;
  uint64_t least_ns = UINT64_MAX;
  for (uint64_t bytes = first_bytes; bytes <= last_bytes; bytes += step_bytes) {
    sweep.points.push_back({bytes, measure_ns(bytes)});
    least_ns = std::min(least_ns, sweep.points.back().delay_ns);
  }
  const double good_enough_ns = static_cast<double>(least_ns) * (1 + tolerance);
  const auto is_good_enough = [&](const SweepPoint& point) {
    return static_cast<double>(point.delay_ns) <= good_enough_ns;
  };
  const auto chosen = std::find_if(sweep.points.begin(), sweep.points.end(), is_good_enough);
  sweep.chosen = static_cast<size_t>(chosen - sweep.points.begin());
  return sweep;
}

// Sizes of some steps of the search, a third of them on its grid.
Costs costs_to_search(RandomNetworks& random) {
  Costs costs = random.costs();
  for (UnitCosts& unit : costs) {
    unit.size_bytes *= ring_step_bytes;
    if (unit.size_bytes > 0 && random.up_to(2) > 0) unit.size_bytes -= random.up_to(4095);
  }
  return costs;
}

uint64_t largest_bytes(const Costs& costs) {
  return round_up(bytes_per_pass(costs), ring_step_bytes);
}

// Some delay between the least and the most.
uint64_t some_delay_ns(Pipeline pipeline, const Costs& costs, RandomNetworks& random) {
  const Rings largest{largest_bytes(costs), largest_bytes(costs)};
  const uint64_t least_ns = delay_ns(pipeline, costs, largest);
  const uint64_t most_ns = delay_ns(pipeline, costs, smallest_rings(pipeline, work_units(costs)));
  return least_ns + random.up_to(most_ns - least_ns);
}

TEST(Search, OneRingIsTheSmallestOfAll) {
  RandomNetworks random(10);
  for (int round = 0; round < 3'000; ++round) {
    const Costs costs = costs_to_search(random);
    const uint64_t delay_max_ns = some_delay_ns(Pipeline::two_stage, costs, random);
    Rings expected{round_up(smallest_rings(Pipeline::two_stage, work_units(costs)).host_bytes,
                            ring_step_bytes),
                   0};
    while (delay_ns(Pipeline::two_stage, costs, expected) > delay_max_ns) {
      expected.host_bytes += ring_step_bytes;
    }
    const auto found = smallest_rings_for_delay(Pipeline::two_stage, costs, delay_max_ns);
    ASSERT_TRUE(found);
    ASSERT_EQ(*found, expected) << "round " << round;
  }
}

TEST(Search, TwoRingsAreTheSmallestOfAllPairs) {
  RandomNetworks random(11);
  int unequal = 0;
  for (int round = 0; round < 500; ++round) {
    const Costs costs = costs_to_search(random);
    const uint64_t delay_max_ns = some_delay_ns(Pipeline::asynchronous, costs, random);
    const Rings smallest = smallest_rings(Pipeline::asynchronous, work_units(costs));
    const uint64_t first_bytes = round_up(smallest.host_bytes, ring_step_bytes);
    uint64_t least_bytes = UINT64_MAX;
    Rings rings;
    for (rings.host_bytes = first_bytes; rings.host_bytes <= largest_bytes(costs);
         rings.host_bytes += ring_step_bytes) {
      for (rings.device_bytes = first_bytes; rings.device_bytes <= largest_bytes(costs);
           rings.device_bytes += ring_step_bytes) {
        if (rings.bytes() >= least_bytes) break;
        if (delay_ns(Pipeline::asynchronous, costs, rings) <= delay_max_ns) {
          least_bytes = rings.bytes();
        }
      }
    }
    const auto found = smallest_rings_for_delay(Pipeline::asynchronous, costs, delay_max_ns);
    ASSERT_TRUE(found);
    ASSERT_LE(delay_ns(Pipeline::asynchronous, costs, *found), delay_max_ns);
    ASSERT_EQ(found->bytes(), least_bytes) << "round " << round;
    unequal += found->host_bytes != found->device_bytes;
  }
  EXPECT_GT(unequal, 50) << "searching both separately never mattered";
}

TEST(Search, DelaysThatNoRingReachesAreRefused) {
  RandomNetworks random(12);
  for (int round = 0; round < 1'000; ++round) {
    const Costs costs = costs_to_search(random);
    for (const Pipeline pipeline : all_pipelines) {
      const Rings largest{2 * largest_bytes(costs), 2 * largest_bytes(costs)};
      const uint64_t least_ns = delay_ns(pipeline, costs, largest);
      const auto found = smallest_rings_for_delay(pipeline, costs, least_ns);
      ASSERT_TRUE(found) << name(pipeline);
      ASSERT_TRUE(Schedule::make(work_units(costs), {.pipeline = pipeline, .rings = *found}));
      if (least_ns == 0) continue;
      ASSERT_FALSE(smallest_rings_for_delay(pipeline, costs, least_ns - 1)) << name(pipeline);
    }
  }
}

TEST(Search, ATolerancePermitsSmallerRings) {
  // Five reads of 100 under kernels of 100 but one of 300: the ring needs to hold most of them.
  Costs costs;
  for (const uint64_t kernel_ns : {100, 300, 10, 10, 10}) {
    costs.push_back({.size_bytes = ring_step_bytes, .read_ns = 100, .kernel_ns = kernel_ns});
  }
  const auto found = [&](double tolerance) {
    return smallest_rings_without_stalls(Pipeline::two_stage, costs, tolerance).host_bytes /
           ring_step_bytes;
  };
  // 530, 530, 610, 710, 930 with rings of 5, 4, 3, 2 and 1.
  EXPECT_EQ(found(0), 4u);
  EXPECT_EQ(found(0.15), 4u);
  EXPECT_EQ(found(0.16), 3u);
  EXPECT_EQ(found(1), 1u);
}

// A curve with noise: the first that is good enough is taken, not the least.
TEST(Search, SweepTakesTheFirstThatIsGoodEnough) {
  const std::map<uint64_t, uint64_t> delays = {{10, 200}, {14, 150}, {18, 101},
                                               {22, 103}, {26, 100}, {30, 100}};
  std::vector<uint64_t> measured;
  const auto measure_ns = [&](uint64_t bytes) {
    measured.push_back(bytes);
    return delays.at(bytes);
  };
  const Sweep exact = sweep_windows(10, 31, 4, 0, measure_ns);
  EXPECT_EQ(measured, (std::vector<uint64_t>{10, 14, 18, 22, 26, 30}));
  ASSERT_EQ(exact.points.size(), 6u);
  EXPECT_EQ(exact.points[exact.chosen].window_bytes, 26u);
  const Sweep tolerant = sweep_windows(10, 30, 4, 0.01, measure_ns);
  EXPECT_EQ(tolerant.points[tolerant.chosen].window_bytes, 18u);
  EXPECT_EQ(tolerant.points[tolerant.chosen].delay_ns, 101u);
}

TEST(Search, SweepOfTheEquationsFindsWhatBisectionFinds) {
  RandomNetworks random(13);
  for (int round = 0; round < 500; ++round) {
    const Costs costs = costs_to_search(random);
    const Rings found = smallest_rings_without_stalls(Pipeline::two_stage, costs, 0);
    const uint64_t first_bytes = round_up(
        smallest_rings(Pipeline::two_stage, work_units(costs)).host_bytes, ring_step_bytes);
    const Sweep sweep =
        sweep_windows(first_bytes, largest_bytes(costs), ring_step_bytes, 0, [&](uint64_t bytes) {
          return delay_ns(Pipeline::two_stage, costs, {.host_bytes = bytes});
        });
    ASSERT_EQ(sweep.points[sweep.chosen].window_bytes, found.host_bytes);
  }
}

}  // namespace
}  // namespace weightpager::pipeline
