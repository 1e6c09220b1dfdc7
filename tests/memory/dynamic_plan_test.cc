// Plans in steps: nothing overlaps, no step knows what becomes known later, nothing that holds data
// moves, and how far from the static optimum they end.
#include "runtime/memory/dynamic_plan.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <map>
#include <random>

#include "runtime/memory/bounds.h"
#include "runtime/memory/portfolio.h"
#include "tests/memory/least_plans.h"
#include "tests/memory/overlaps.h"
#include "tests/memory/published_networks.h"
#include "tests/memory/random_records.h"

namespace weightpager::memory {
namespace {

using Known = std::vector<std::optional<uint32_t>>;
using Numbers = std::vector<uint32_t>;
using Offsets = std::vector<uint64_t>;

uint64_t place_of(const OffsetPlan& plan, uint32_t tensor) { return plan.offset_bytes[tensor]; }
uint64_t place_of(const SharedObjectsPlan& plan, uint32_t tensor) { return plan.object[tensor]; }

std::vector<uint64_t> totals_of(const std::vector<PlanStep>& steps) {
  std::vector<uint64_t> totals;
  for (const PlanStep& step : steps) totals.push_back(step.total_bytes);
  return totals;
}

// ---- By hand ----

TEST(StepsOfOffsets, WhatBecomesKnownIsPlacedBesideWhatIsThere) {
  // 10 and 20 at the beginning; behind operation 1 it is known that 15 come beside 20.
  const std::vector<TensorUsage> tensors = {{0, 1, 10}, {1, 3, 20}, {2, 3, 15}};
  const Known known = {{}, {}, 1};
  const auto planned = plan_offsets_in_steps(tensors, known, StepRule::greedy_by_size);
  ASSERT_EQ(planned.steps.size(), 2u);
  EXPECT_EQ(planned.steps[0].after_operation, std::nullopt);
  EXPECT_EQ(planned.steps[0].tensors, (Numbers{0, 1}));
  EXPECT_EQ(planned.steps[1].after_operation, 1u);
  EXPECT_EQ(planned.steps[1].tensors, (Numbers{2}));
  EXPECT_EQ(totals_of(planned.steps), (Offsets{30, 35}));
  EXPECT_EQ(planned.plan.offset_bytes, (Offsets{20, 0, 20}));
  EXPECT_EQ(planned.plan.total_bytes, 35u);
}

TEST(StepsOfOffsets, TensorsOfOneStepArePlacedTogether) {
  // The larger one of a step comes first, whatever their order.
  const std::vector<TensorUsage> tensors = {{2, 3, 5}, {2, 3, 30}, {0, 1, 8}};
  const Known known = {1, 1, {}};
  const auto planned = plan_offsets_in_steps(tensors, known, StepRule::greedy_by_size);
  EXPECT_EQ(planned.plan.offset_bytes, (Offsets{30, 0, 0}));
  EXPECT_EQ(totals_of(planned.steps), (Offsets{8, 35}));
}

// At the beginning 0 lies on the ground, 1 on it at 40, and 2 where 0 was. Then it turns out that
// 40 are needed between 1 and 2, where 30 are free.
std::vector<TensorUsage> three_and_one_late(uint32_t third_begins, TensorUsage late) {
  return {{0, 1, 40}, {0, 9, 10}, {third_begins, 9, 10}, late};
}

TEST(StepsOfOffsets, WhatHasNotBegunMayMove) {
  const auto tensors = three_and_one_late(5, {2, 6, 40});
  const Known known = {{}, {}, {}, 1};
  const auto stayed = plan_offsets_in_steps(tensors, known, StepRule::placed_stay);
  EXPECT_EQ(totals_of(stayed.steps), (Offsets{50, 90}));
  EXPECT_EQ(stayed.plan.offset_bytes, (Offsets{0, 40, 0, 50}));
  const auto moved = plan_offsets_in_steps(tensors, known, StepRule::unbegun_move);
  EXPECT_EQ(totals_of(moved.steps), (Offsets{50, 60}));
  EXPECT_EQ(moved.plan.offset_bytes, (Offsets{0, 40, 50, 0}));
}

TEST(StepsOfOffsets, RoomIsLeftWhereALateTensorWillLive) {
  // 0 lives alone, then with 1. 2, whose size is late, lives with 1 only. Greedily by size 0 lies
  // on the ground, 1 on it, and 2 has only 20 below 1. With room kept 1 is on the ground.
  const std::vector<TensorUsage> tensors = {{0, 1, 20}, {1, 2, 20}, {2, 3, 40}};
  const Known known = {{}, {}, 1};
  const auto greedy = plan_offsets_in_steps(tensors, known, StepRule::unbegun_move);
  EXPECT_EQ(totals_of(greedy.steps), (Offsets{40, 80}));
  const auto kept = plan_offsets_in_steps(tensors, known, StepRule::room_kept);
  EXPECT_EQ(totals_of(kept.steps), (Offsets{40, 60}));
  EXPECT_EQ(kept.plan.offset_bytes, (Offsets{20, 0, 20}));
}

TEST(StepsOfOffsets, WhatHasBegunStays) {
  const auto tensors = three_and_one_late(2, {6, 8, 40});
  const Known known = {{}, {}, {}, 4};
  const auto moved = plan_offsets_in_steps(tensors, known, StepRule::unbegun_move);
  EXPECT_EQ(totals_of(moved.steps), (Offsets{50, 90}));
  EXPECT_EQ(moved.plan.offset_bytes, (Offsets{0, 40, 0, 50}));
}

TEST(StepsOfObjects, AnObjectGrowsForATensorThatBecomesKnown) {
  const std::vector<TensorUsage> tensors = {{0, 1, 10}, {1, 2, 20}, {2, 3, 30}};
  const Known known = {{}, {}, 1};
  for (const StepRule rule : step_rules) {
    const auto planned = share_objects_in_steps(tensors, known, rule);
    EXPECT_EQ(totals_of(planned.steps), (Offsets{30, 50}));
    EXPECT_EQ(planned.plan.object[2], planned.plan.object[0]) << "the one that is free";
  }
}

TEST(Steps, OfNothing) {
  for (const StepRule rule : step_rules) {
    EXPECT_EQ(plan_offsets_in_steps({}, {}, rule).steps.size(), 1u);
    EXPECT_EQ(share_objects_in_steps({}, {}, rule).plan.total_bytes(), 0u);
  }
}

TEST(Steps, TheFirstIsThereThoughNothingIsKnown) {
  const std::vector<TensorUsage> tensors = {{1, 2, 64}};
  const Known known = {0};
  EXPECT_EQ(totals_of(plan_offsets_in_steps(tensors, known, StepRule::placed_stay).steps),
            (Offsets{0, 64}));
  EXPECT_EQ(totals_of(share_objects_in_steps(tensors, known, StepRule::placed_stay).steps),
            (Offsets{0, 64}));
}

// ---- Any records ----

/// Of each tensor that does not begin with the first operation: nothing, or an operation before it.
Known any_times(const std::vector<TensorUsage>& tensors) {
  Known known;
  for (const TensorUsage& it : tensors) {
    const int place = *rc::gen::inRange(-2, static_cast<int>(it.first_operation));
    known.push_back(place < 0 ? std::nullopt : std::optional(static_cast<uint32_t>(place)));
  }
  return known;
}

template <typename Plan>
void check_steps(Tensors tensors, const SteppedPlan<Plan>& planned, uint64_t bound_bytes) {
  RC_ASSERT(find_overlaps(tensors, planned.plan).empty());
  RC_ASSERT(bytes_of(planned.plan) >= bound_bytes);
  RC_ASSERT(bytes_of(planned.plan) <= unshared_bytes(tensors));
  RC_ASSERT(bytes_of(planned.plan) == planned.steps.back().total_bytes);
  const auto totals = totals_of(planned.steps);
  RC_ASSERT(std::is_sorted(totals.begin(), totals.end()));
  std::vector<bool> is_known(tensors.size());
  for (const PlanStep& step : planned.steps) {
    for (const uint32_t tensor : step.tensors) {
      RC_ASSERT(!is_known[tensor]);
      is_known[tensor] = true;
    }
  }
  RC_ASSERT(std::count(is_known.begin(), is_known.end(), false) == 0);
}

TEST(Steps, OfAnyRecordsArePlans) {
  EXPECT_TRUE(rc::check([] {
    const auto tensors = *any_records(20);
    const Known known = any_times(tensors);
    for (const StepRule rule : step_rules) {
      check_steps(tensors, plan_offsets_in_steps(tensors, known, rule),
                  offsets_lower_bound_bytes(tensors));
      check_steps(tensors, share_objects_in_steps(tensors, known, rule),
                  shared_objects_lower_bound_bytes(tensors));
    }
  }));
}

TEST(Steps, WithAllSizesKnownAreTheStaticPlans) {
  EXPECT_TRUE(rc::check([] {
    const auto tensors = *any_records(20);
    const Known known(tensors.size());
    const auto greedy = plan_offsets_in_steps(tensors, known, StepRule::greedy_by_size);
    RC_ASSERT(greedy.plan.offset_bytes == offset_strategies().front().plan(tensors).offset_bytes);
    const auto greedy_objects = share_objects_in_steps(tensors, known, StepRule::greedy_by_size);
    RC_ASSERT(greedy_objects.plan.object ==
              shared_object_strategies().front().plan(tensors).object);
    for (const StepRule rule : step_rules) {
      if (rule == StepRule::greedy_by_size) continue;
      const auto offsets = plan_offsets_in_steps(tensors, known, rule);
      const auto objects = share_objects_in_steps(tensors, known, rule);
      RC_ASSERT(offsets.steps.size() == 1 && objects.steps.size() == 1);
      RC_ASSERT(offsets.plan.offset_bytes ==
                choose_offsets(tensors, Effort::every_strategy).plan.offset_bytes);
      RC_ASSERT(objects.plan.object == choose_shared_objects(tensors).plan.object);
    }
  }));
}

/// Whatever sizes become known later, the first steps are the same; and what has begun by the next
/// one, or all of it unless `may_move`, lies in the end where these have placed it.
template <typename Make>
void check_first_steps(Tensors tensors, const Known& known, bool may_move, Make make) {
  const auto planned = make(tensors, known);
  std::vector<TensorUsage> others(tensors.begin(), tensors.end());
  for (size_t steps = planned.steps.size() - 1; steps > 0; --steps) {
    for (const uint32_t tensor : planned.steps[steps].tensors) {
      others[tensor].size_bytes = static_cast<uint64_t>(*rc::gen::inRange(1, 1000));
    }
    const auto other = make(others, known);
    const uint32_t next_after = *planned.steps[steps].after_operation;
    for (size_t i = 0; i < steps; ++i) {
      RC_ASSERT(other.steps[i].total_bytes == planned.steps[i].total_bytes);
      for (const uint32_t tensor : planned.steps[i].tensors) {
        const bool stays = !may_move || tensors[tensor].first_operation <= next_after;
        RC_ASSERT(!stays || place_of(other.plan, tensor) == place_of(planned.plan, tensor));
      }
    }
  }
}

TEST(Steps, NoStepKnowsWhatBecomesKnownLaterAndDataNeverMove) {
  EXPECT_TRUE(rc::check([] {
    const auto tensors = *any_records(12, 12);
    const Known known = any_times(tensors);
    for (const StepRule rule : step_rules) {
      const bool may_move = rule == StepRule::unbegun_move || rule == StepRule::room_kept;
      check_first_steps(tensors, known, may_move, [&](Tensors some, const Known& times) {
        return plan_offsets_in_steps(some, times, rule);
      });
      check_first_steps(tensors, known, may_move, [&](Tensors some, const Known& times) {
        return share_objects_in_steps(some, times, rule);
      });
    }
  }));
}

// ---- Against brute force ----

/// Where a tensor may begin so that the block grows least, when all others lie where they are.
uint64_t least_end(Tensors tensors, const OffsetPlan& plan, uint32_t tensor) {
  const auto is_free = [&](uint64_t offset) {
    for (uint32_t other = 0; other < tensors.size(); ++other) {
      const bool is_apart = other == tensor || !tensors[other].is_live_with(tensors[tensor]) ||
                            offset + tensors[tensor].size_bytes <= plan.offset_bytes[other] ||
                            plan.offset_bytes[other] + tensors[other].size_bytes <= offset;
      if (!is_apart) return false;
    }
    return true;
  };
  uint64_t offset = 0;
  while (!is_free(offset)) ++offset;
  return offset + tensors[tensor].size_bytes;
}

TEST(StepsOfOffsets, ASingleTensorMakesTheBlockGrowAsLittleAsPossible) {
  EXPECT_TRUE(rc::check([] {
    const auto tensors = *any_records(12, 12);
    Known known(tensors.size());
    const auto late = std::find_if(tensors.begin(), tensors.end(),
                                   [](const TensorUsage& it) { return it.first_operation > 0; });
    RC_PRE(late != tensors.end());
    known[static_cast<size_t>(late - tensors.begin())] = late->first_operation - 1;
    for (const StepRule rule : {StepRule::greedy_by_size, StepRule::placed_stay}) {
      const auto planned = plan_offsets_in_steps(tensors, known, rule);
      const uint64_t end = least_end(tensors, planned.plan, planned.steps[1].tensors[0]);
      RC_ASSERT(planned.plan.total_bytes == std::max(planned.steps[0].total_bytes, end));
    }
  }));
}

/// How plans in steps compare with the least static plan, of many records.
struct Distance {
  int at_optimum = 0;
  double sum = 0;
  double worst = 0;

  void add(uint64_t bytes, uint64_t least_bytes) {
    EXPECT_GE(bytes, least_bytes);
    const double ratio = static_cast<double>(bytes) / static_cast<double>(least_bytes);
    at_optimum += bytes == least_bytes;
    sum += ratio;
    worst = std::max(worst, ratio);
  }
};

constexpr int distance_count = 400;

/// Of seeded records: `plan_steps` under each rule against what `least_of` finds by trying all.
template <typename PlanSteps, typename LeastOf>
std::map<StepRule, Distance> distances(PlanSteps plan_steps, LeastOf least_of) {
  constexpr uint32_t tensor_count = 6;
  std::mt19937 random(7);
  const auto below = [&](uint32_t end) { return static_cast<uint32_t>(random() % end); };
  std::map<StepRule, Distance> found;
  for (int i = 0; i < distance_count; ++i) {
    std::vector<TensorUsage> tensors;
    Known known;
    for (uint32_t k = 0; k < tensor_count; ++k) {
      const uint32_t first = below(10);
      tensors.push_back({first, first + below(5), 1 + below(20)});
      const bool is_late = first > 0 && below(2) == 0;
      known.push_back(is_late ? std::optional(below(first)) : std::nullopt);
    }
    const uint64_t least_bytes = least_of(tensors);
    for (const StepRule rule : step_rules) {
      found[rule].add(bytes_of(plan_steps(tensors, known, rule, TimeLimit()).plan), least_bytes);
    }
  }
  return found;
}

/// Rounded as in the documentation of activation sharing.
void expect_distance(const Distance& found, int at_optimum_percent, double mean, double worst) {
  EXPECT_EQ(100 * found.at_optimum / distance_count, at_optimum_percent);
  EXPECT_NEAR(found.sum / distance_count, mean, 0.0005);
  EXPECT_NEAR(found.worst, worst, 0.0005);
}

TEST(StepsOfOffsets, HowFarTheyAreFromTheStaticOptimum) {
  const auto found = distances(plan_offsets_in_steps, least_offset_bytes);
  expect_distance(found.at(StepRule::greedy_by_size), 85, 1.032, 1.516);
  expect_distance(found.at(StepRule::placed_stay), 87, 1.030, 1.516);
  expect_distance(found.at(StepRule::unbegun_move), 95, 1.008, 1.423);
  expect_distance(found.at(StepRule::room_kept), 97, 1.002, 1.215);
}

TEST(StepsOfObjects, HowFarTheyAreFromTheStaticOptimum) {
  const auto found = distances(share_objects_in_steps,
                               [](Tensors tensors) { return least_shared_bytes(tensors); });
  expect_distance(found.at(StepRule::greedy_by_size), 68, 1.048, 1.500);
  expect_distance(found.at(StepRule::placed_stay), 70, 1.047, 1.500);
  expect_distance(found.at(StepRule::unbegun_move), 91, 1.012, 1.351);
  expect_distance(found.at(StepRule::room_kept), 92, 1.010, 1.351);
}

}  // namespace
}  // namespace weightpager::memory
