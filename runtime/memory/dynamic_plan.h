// Tensors whose sizes are known only while the network runs: plans in steps.
//
// Problem. Strategies need all sizes. Behind a recurrent layer, or behind one that finds a number
// of boxes, sizes are known only when an operation has run.
//
// Idea. Pisarchyk & Lee (2020), §7: the strategies run several times, and what all runs have placed
// is kept in one place. The first run places the tensors whose sizes are known at the beginning.
// Each further one places those whose sizes have become known since, beside what is there. So no
// run sees a size before it is known, and a tensor that holds data never moves.
//
// Beyond the paper. A tensor that has been placed and has not begun holds no data yet, so a later
// step may place it anew. And though a size is not known, it is known when the tensor will live: of
// plans that are equally large, a step prefers one that leaves much room at that time.
//
// An object that takes a larger tensor grows. It is empty at that time, so nothing is copied.
//
// Cost: some 10 placements for each step, 20 where tensors may move. Offsets take up to 200 more,
// of a search for a better order (order_search.h), where a step makes the block larger than it must
// be, and wherever room is to be kept.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "pager/base/time_limit.h"
#include "runtime/memory/plan.h"

namespace weightpager::memory {

/// By tensor: the operation after which its size is known. It is before the tensor's first one.
/// Without a value the size is known before the network runs.
using KnownAfter = std::span<const std::optional<uint32_t>>;

enum class StepRule {
  /// The paper's, with its strategy greedy by size. What is placed stays.
  greedy_by_size,
  /// What is placed stays. Each step has the best of the strategies that can go on from it.
  placed_stay,
  /// Only tensors that have begun stay. Each step has the best of these strategies, and of those of
  /// `placed_stay`.
  unbegun_move,
  /// The same, and of equally large plans the one that leaves most room to the tensors whose sizes
  /// become known next.
  room_kept,
};
inline constexpr StepRule step_rules[] = {StepRule::greedy_by_size, StepRule::placed_stay,
                                          StepRule::unbegun_move, StepRule::room_kept};
/// As tables and JSON call it.
const char* name(StepRule rule);

/// What becomes known at one time.
struct PlanStep {
  /// Without a value: before the network runs.
  std::optional<uint32_t> after_operation;
  /// The tensors that become known, by number.
  std::vector<uint32_t> tensors;
  /// What all tensors that are known by now take. It never falls from step to step.
  uint64_t total_bytes = 0;
};

template <typename Plan>
struct SteppedPlan {
  /// Where each tensor lies in the end, when its data are in it.
  Plan plan;
  /// In the order of time. There is a first one, before the network runs, even if no tensor is
  /// known by then.
  std::vector<PlanStep> steps;
};

/// If all sizes are known from the beginning, there is one step, which is the static plan: of
/// `greedy_by_size` that of its first tie rule, otherwise that of choose_offsets() or
/// choose_shared_objects(). Where time is over, steps are planned greedily by size. No step looks
/// at a size that is not known yet.
SteppedPlan<OffsetPlan> plan_offsets_in_steps(Tensors tensors, KnownAfter known_after,
                                              StepRule rule, const TimeLimit& limit = {});
SteppedPlan<SharedObjectsPlan> share_objects_in_steps(Tensors tensors, KnownAfter known_after,
                                                      StepRule rule, const TimeLimit& limit = {});

}  // namespace weightpager::memory
