// The schedule under a fake clock against the equations, to the nanosecond.
#include "runtime/pipeline/simulate.h"

#include <gtest/gtest.h>

#include <utility>

#include "tests/pipeline/random_network.h"

namespace weightpager::pipeline {
namespace {

using Costs = std::vector<UnitCosts>;

std::vector<Timeline> run(const Costs& costs, const ScheduleSettings& settings,
                          const Arrivals& arrivals, const std::vector<bool>& is_pinned = {}) {
  std::vector<WorkUnit> units = work_units(costs);
  for (size_t i = 0; i < is_pinned.size(); ++i) units[i].is_pinned = is_pinned[i];
  auto schedule = Schedule::make(units, settings);
  EXPECT_TRUE(schedule) << schedule.error().message;
  return simulate(*std::move(schedule), costs, arrivals);
}

void shift(TimeSpan& span, uint64_t start_ns) {
  if (span == TimeSpan{}) return;  // did not happen
  span.start_ns -= start_ns;
  span.finish_ns -= start_ns;
}

// Times since the inference's start.
Timeline from_zero(Timeline timeline) {
  for (UnitTimes& unit : timeline.units) {
    shift(unit.read, timeline.start_ns);
    shift(unit.copy, timeline.start_ns);
    shift(unit.kernel, timeline.start_ns);
  }
  timeline.finish_ns -= timeline.start_ns;
  timeline.start_ns = 0;
  return timeline;
}

void expect_equal(const Timeline& actual, const Timeline& expected) {
  ASSERT_EQ(actual.finish_ns, expected.finish_ns);
  ASSERT_EQ(actual.units, expected.units);
}

class EveryPipeline : public testing::TestWithParam<Pipeline> {};

TEST_P(EveryPipeline, IsItsEquations) {
  RandomNetworks random(7);
  int of_one = 0, of_two = 0;
  for (int round = 0; round < 20'000; ++round) {
    const Costs costs = random.costs();
    of_one += costs.size() == 1;
    of_two += costs.size() == 2;
    const Rings rings = random.rings(GetParam(), work_units(costs));
    // Of preload the second inference: the first one contains the loading.
    const std::vector<Timeline> inferences =
        run(costs, {.pipeline = GetParam(), .rings = rings}, {.inferences = 2});
    expect_equal(from_zero(inferences[1]), timeline(GetParam(), costs, rings));
    if (GetParam() != Pipeline::preload) {
      expect_equal(inferences[0], timeline(GetParam(), costs, rings));
    }
    ASSERT_FALSE(HasFailure()) << "round " << round;
  }
  EXPECT_GT(of_one, 100);
  EXPECT_GT(of_two, 100);
}

// Once they are in memory, pinned units are as if they had no weights.
TEST_P(EveryPipeline, IsItsEquationsWithPinnedUnits) {
  RandomNetworks random(8);
  for (int round = 0; round < 5'000; ++round) {
    const Costs costs = random.costs();
    std::vector<WorkUnit> units = work_units(costs);
    std::vector<bool> is_pinned;
    for (WorkUnit& unit : units) is_pinned.push_back(unit.is_pinned = random.up_to(2) == 0);
    const Rings rings = random.rings(GetParam(), units);
    const std::vector<Timeline> inferences =
        run(costs, {.pipeline = GetParam(), .rings = rings}, {.inferences = 2}, is_pinned);
    expect_equal(from_zero(inferences[1]),
                 timeline(GetParam(), after_first_pass(costs, is_pinned), rings));
    ASSERT_FALSE(HasFailure()) << "round " << round;
  }
}

TEST(Simulate, TwoStageIsItsEquationsWithAnArenaOverlay) {
  RandomNetworks random(10);
  uint64_t overlaid_units = 0;
  for (int round = 0; round < 20'000; ++round) {
    Costs costs = random.costs();
    random.overlay_some(costs);
    for (const UnitCosts& it : costs) overlaid_units += it.overlay.has_value();
    const Rings rings = random.rings(Pipeline::two_stage, work_units(costs));
    const std::vector<Timeline> inferences =
        run(costs, {.pipeline = Pipeline::two_stage, .rings = rings}, {.inferences = 2});
    for (const Timeline& it : inferences) {
      expect_equal(from_zero(it), timeline(Pipeline::two_stage, costs, rings));
    }
    ASSERT_FALSE(HasFailure()) << "round " << round;
  }
  EXPECT_GT(overlaid_units, 20'000u) << "too tame a test";
}

INSTANTIATE_TEST_SUITE_P(Simulate, EveryPipeline, testing::ValuesIn(all_pipelines),
                         [](const auto& tested) {
                           std::string word(name(tested.param));
                           std::replace(word.begin(), word.end(), '-', '_');
                           return word;
                         });

/// A network, a pipeline that reads across inferences, and rings that hold no more than the
/// network. (Larger ones could hold a third inference's units, which a schedule does not read so
/// early.)
struct RandomPasses {
  Costs costs;
  Pipeline pipeline;
  Rings rings;

  std::vector<Timeline> run_in_a_row(uint32_t inferences) const {
    return run(costs, {.pipeline = pipeline, .rings = rings, .reads_across_inferences = true},
               {.inferences = inferences});
  }
};

RandomPasses random_passes(RandomNetworks& random) {
  for (;;) {
    Costs costs = random.costs();
    const Pipeline pipeline = random.up_to(1) == 0 ? Pipeline::asynchronous : Pipeline::two_stage;
    const Rings rings = random.rings(pipeline, work_units(costs));
    if (rings.bytes() <= bytes_per_pass(costs)) return {std::move(costs), pipeline, rings};
  }
}

// Three inferences that are read across are one of three times as many units.
TEST(Simulate, ReadsAcrossInferencesAreOneLongTimeline) {
  RandomNetworks random(9);
  int faster = 0;
  for (int compared = 0; compared < 20'000; ++compared) {
    const RandomPasses it = random_passes(random);
    const std::vector<Timeline> inferences = it.run_in_a_row(3);
    Costs in_a_row;
    for (int i = 0; i < 3; ++i) in_a_row.insert(in_a_row.end(), it.costs.begin(), it.costs.end());
    const Timeline expected = timeline(it.pipeline, in_a_row, it.rings);
    for (size_t i = 0; i < in_a_row.size(); ++i) {
      ASSERT_EQ(inferences[i / it.costs.size()].units[i % it.costs.size()], expected.units[i]);
    }
    faster += inferences[2].delay_ns() < delay_ns(it.pipeline, it.costs, it.rings);
  }
  EXPECT_GT(faster, 10'000);
}

// The third inference in a row, or what its reads or its kernels take, is what all later ones take
// on average, to the nanosecond in nearly all networks.
TEST(Simulate, InARowInferencesSoonTakeTheSame) {
  RandomNetworks random(10);
  int same = 0;
  for (int compared = 0; compared < 5'000; ++compared) {
    const RandomPasses it = random_passes(random);
    const std::vector<Timeline> inferences = it.run_in_a_row(12);
    const uint64_t expected_ns = delay_ns(it.pipeline, it.costs, it.rings, Inferences::in_a_row);
    ASSERT_EQ(std::max(inferences[2].delay_ns(), least_delay_ns(it.costs)), expected_ns);
    same += inferences[11].finish_ns - inferences[2].finish_ns == 9 * expected_ns;
  }
  EXPECT_GT(same, 4'900);
}

// While nothing is asked for, the ring fills with the next inference's first units.
TEST(Simulate, IdleTimeIsUsedToReadAhead) {
  const Costs costs = {{.size_bytes = 1, .read_ns = 100, .kernel_ns = 10},
                       {.size_bytes = 1, .read_ns = 100, .kernel_ns = 10},
                       {.size_bytes = 1, .read_ns = 100, .kernel_ns = 10}};
  ScheduleSettings settings{.pipeline = Pipeline::two_stage, .rings = {.host_bytes = 2}};
  const Arrivals arrivals{.inferences = 2, .idle_ns = 1000};
  for (const Timeline& inference : run(costs, settings, arrivals)) {
    EXPECT_EQ(inference.delay_ns(), 310u);
  }
  settings.reads_across_inferences = true;
  // Two are there; the third one's read starts when the first kernel ends.
  for (const Timeline& inference : run(costs, settings, arrivals)) {
    EXPECT_EQ(inference.delay_ns(), 120u);
  }
}

TEST(Simulate, PreloadLoadsBeforeOrInTheFirstInference) {
  const Costs costs = {{.size_bytes = 1, .read_ns = 100, .kernel_ns = 10},
                       {.size_bytes = 1, .read_ns = 100, .kernel_ns = 10}};
  const ScheduleSettings settings{.pipeline = Pipeline::preload};
  EXPECT_EQ(run(costs, settings, {})[0].delay_ns(), 210u);
  EXPECT_EQ(run(costs, settings, {.idle_ns = 1000})[0].delay_ns(), 20u);
}

}  // namespace
}  // namespace weightpager::pipeline
