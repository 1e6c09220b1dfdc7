// All strategies, and the best plan of them.
//
// Problem. No strategy is the best for every network, and which of equal tensors comes first can
// matter more than the strategy.
//
// Idea. Planning takes milliseconds and is done once, so every strategy runs under every tie rule,
// then a search that the bound or an amount of work ends, and the smallest plan is kept. The same
// tensors get the same plan, on every machine.
//
// Cost: some 10 placements, the square of the number of tensors each, and, where none meets the
// bound, `swap_work` for swaps. Shared objects, besides 26 strategies of about the same cost: the
// cube of the number of tensors for the flow, and `exact_work`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "pager/base/time_limit.h"
#include "runtime/memory/plan.h"

namespace weightpager::memory {

/// A strategy under one tie rule. Those of one name are in a row, first the rule that gives the
/// figures of Pisarchyk & Lee, where one does.
template <typename Plan>
struct Strategy {
  std::string name;
  std::string ties;
  std::function<Plan(Tensors)> plan;
};

/// Those without a search.
const std::vector<Strategy<OffsetPlan>>& offset_strategies();
const std::vector<Strategy<SharedObjectsPlan>>& shared_object_strategies();

/// What a strategy came to.
struct Attempt {
  std::string strategy;
  std::string ties;
  uint64_t total_bytes = 0;
};

struct OffsetsChoice {
  /// The smallest; of equals the first.
  OffsetPlan plan;
  std::vector<Attempt> attempts;
  /// Into `attempts`.
  size_t kept = 0;
  uint64_t lower_bound_bytes = 0;
};

enum class Effort {
  /// As soon as a plan meets the bound, nothing else is tried.
  until_bound,
  /// All strategies; the search only where none of them meets the bound.
  every_strategy,
};
/// Where time is over, what is left to try is not: at least one strategy always is.
OffsetsChoice choose_offsets(Tensors tensors, Effort effort, const TimeLimit& limit = {});

struct SharedObjectsChoice {
  SharedObjectsPlan plan;
  std::vector<Attempt> attempts;
  size_t kept = 0;
  /// The sum of the positional maxima.
  uint64_t lower_bound_bytes = 0;
  /// By search. The plan's size if that is the optimum.
  uint64_t proved_lower_bound_bytes = 0;
};
SharedObjectsChoice choose_shared_objects(Tensors tensors, const TimeLimit& limit = {});

}  // namespace weightpager::memory
