// All strategies, and the best of their plans.
//
// Problem. No strategy is the best for every network, and which of equal tensors comes first can
// matter more than the strategy.
//
// Idea. Planning takes milliseconds and is done once. So every strategy runs under every tie rule.
// A search follows, until it reaches the bound or an amount of work. The smallest plan is kept. The
// same tensors get the same plan, on every machine.
//
// Cost: some 10 placements, the square of the number of tensors each, and `swap_work` for swaps
// where no placement meets the bound. Shared objects: 26 strategies of about the same cost each,
// the cube of the number of tensors for the flow, and `exact_work`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "pager/base/time_limit.h"
#include "runtime/memory/plan.h"

namespace weightpager::memory {

/// A strategy under one tie rule. Strategies of one name are in a row; the first has the tie rule
/// that gives the figures of Pisarchyk & Lee, if there is one.
template <typename Plan>
struct Strategy {
  std::string name;
  std::string ties;
  std::function<Plan(Tensors, const Earlier<Plan>&)> go_on;
  /// Whether it plans only from nothing.
  bool only_begins = false;

  Plan plan(Tensors tensors) const { return go_on(tensors, {}); }
};

/// All strategies that do not search.
const std::vector<Strategy<OffsetPlan>>& offset_strategies();
const std::vector<Strategy<SharedObjectsPlan>>& shared_object_strategies();

/// The result of one strategy.
struct Attempt {
  std::string strategy;
  std::string ties;
  uint64_t total_bytes = 0;
};

struct OffsetsChoice {
  /// The smallest plan; of equal ones, the first.
  OffsetPlan plan;
  std::vector<Attempt> attempts;
  /// The index of the plan's attempt.
  size_t kept = 0;
  uint64_t lower_bound_bytes = 0;
};

enum class Effort {
  /// As soon as a plan meets the bound, nothing else is tried.
  until_bound,
  /// All strategies are tried; the search only where none of them meets the bound.
  every_strategy,
};
/// At least one strategy is always tried. Where time is over, the rest is left out.
OffsetsChoice choose_offsets(Tensors tensors, Effort effort, const TimeLimit& limit = {});

struct SharedObjectsChoice {
  SharedObjectsPlan plan;
  std::vector<Attempt> attempts;
  size_t kept = 0;
  /// The sum of the positional maxima.
  uint64_t lower_bound_bytes = 0;
  /// Found by search. The plan's size if the plan is the optimum.
  uint64_t proved_lower_bound_bytes = 0;
};
SharedObjectsChoice choose_shared_objects(Tensors tensors, const TimeLimit& limit = {});

}  // namespace weightpager::memory
