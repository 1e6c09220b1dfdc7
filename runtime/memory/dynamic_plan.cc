#include "runtime/memory/dynamic_plan.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "pager/base/assert.h"
#include "runtime/memory/bounds.h"
#include "runtime/memory/offsets.h"
#include "runtime/memory/order_search.h"
#include "runtime/memory/portfolio.h"
#include "runtime/memory/shared_objects.h"

namespace weightpager::memory {
namespace {

/// The pairs of tensors that swaps may look at in a step: 2 ms. It may not depend on how many steps
/// follow, which nobody knows.
constexpr uint64_t step_swap_work = 1 << 20;
constexpr uint64_t step_swap_trials_max = 200;
/// Room is kept for so many of the tensors that become known next. Sums of their places stay below
/// 2^64 (records_file.h).
constexpr size_t late_max = 8;

uint64_t bound_of(Tensors tensors, const OffsetPlan&) { return offsets_lower_bound_bytes(tensors); }
uint64_t bound_of(Tensors tensors, const SharedObjectsPlan&) {
  return shared_objects_lower_bound_bytes(tensors);
}

const auto& strategies_of(const OffsetPlan&) { return offset_strategies(); }
const auto& strategies_of(const SharedObjectsPlan&) { return shared_object_strategies(); }

OffsetPlan best_static(Tensors tensors, const TimeLimit& limit, const OffsetPlan&) {
  return choose_offsets(tensors, Effort::until_bound, limit).plan;
}
SharedObjectsPlan best_static(Tensors tensors, const TimeLimit& limit, const SharedObjectsPlan&) {
  return choose_shared_objects(tensors, limit).plan;
}

// ---- Room for what is not known yet ----

/// When tensors live whose sizes are not known yet; sizes are 0.
using Late = std::vector<TensorUsage>;

/// What a late tensor comes to lie above, if no gap holds it: the sum over all late tensors.
uint64_t below_late(Tensors tensors, const Late& late, const OffsetPlan& plan) {
  uint64_t sum = 0;
  for (const TensorUsage& it : late) {
    uint64_t end = 0;
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (it.is_live_with(tensors[i]))
        end = std::max(end, plan.offset_bytes[i] + tensors[i].size_bytes);
    }
    sum += end;
  }
  return sum;
}

/// What is missing to the largest object that a late tensor can have: the sum over all.
uint64_t below_late(Tensors tensors, const Late& late, const SharedObjectsPlan& plan) {
  uint64_t sum = 0;
  for (const TensorUsage& it : late) {
    std::vector<bool> is_taken(plan.object_bytes.size());
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (it.is_live_with(tensors[i])) is_taken[plan.object[i]] = true;
    }
    uint64_t largest = 0;
    for (size_t k = 0; k < is_taken.size(); ++k) {
      if (!is_taken[k]) largest = std::max(largest, plan.object_bytes[k]);
    }
    sum += plan.total_bytes() - largest;
  }
  return sum;
}

/// The largest tensors first of those that live with late ones, then of the others.
Order late_neighbours_first(Tensors tensors, const Late& late) {
  Order order = by_size(tensors, Ties::earlier_first);
  std::stable_partition(order.begin(), order.end(), [&](uint32_t tensor) {
    return std::any_of(late.begin(), late.end(),
                       [&](const TensorUsage& it) { return it.is_live_with(tensors[tensor]); });
  });
  return order;
}

OffsetPlan neighbours_first(Tensors tensors, const Late& late, const Earlier<OffsetPlan>& earlier) {
  return place_in_order(tensors, late_neighbours_first(tensors, late), earlier);
}
SharedObjectsPlan neighbours_first(Tensors tensors, const Late& late,
                                   const Earlier<SharedObjectsPlan>& earlier) {
  return share_in_order(tensors, late_neighbours_first(tensors, late), Fit::tightest, earlier);
}

/// The search for a better order from an earlier plan.
std::optional<OffsetPlan> search_orders(Tensors tensors, const Late& late,
                                        const Earlier<OffsetPlan>& earlier, uint64_t enough_bytes) {
  const uint64_t pairs = std::max<uint64_t>(uint64_t{tensors.size()} * tensors.size(), 1);
  const uint64_t trials = std::clamp<uint64_t>(step_swap_work / pairs, 1, step_swap_trials_max);
  AlsoSmall also_small;
  if (!late.empty())
    also_small = [&](const OffsetPlan& plan) { return below_late(tensors, late, plan); };
  return place_by_swaps(tensors, late_neighbours_first(tensors, late), enough_bytes, trials,
                        earlier, also_small)
      .plan;
}
/// Objects have none.
std::optional<SharedObjectsPlan> search_orders(Tensors, const Late&,
                                               const Earlier<SharedObjectsPlan>&, uint64_t) {
  return {};
}

/// Plans step by step. Tensors are numbered by when they become known, so each step knows the first
/// ones and cannot look at the others.
template <typename Plan>
class Steps {
 public:
  Steps(Tensors tensors, KnownAfter known_after, StepRule rule, const TimeLimit& limit)
      : rule_(rule), limit_(limit), number_(tensors.size()) {
    WP_ASSERT(known_after.size() == tensors.size());
    std::iota(number_.begin(), number_.end(), 0);
    std::stable_sort(number_.begin(), number_.end(), [&](uint32_t left, uint32_t right) {
      return known_after[left] < known_after[right];  // without a value is before all values
    });
    made_.steps.emplace_back();
    for (const uint32_t tensor : number_) {
      const auto after = known_after[tensor];
      WP_ASSERT(!after || *after < tensors[tensor].first_operation);
      if (after != made_.steps.back().after_operation) {
        made_.steps.push_back({.after_operation = after, .tensors = {}});
      }
      made_.steps.back().tensors.push_back(tensor);
      tensors_.push_back(tensors[tensor]);
    }
  }

  SteppedPlan<Plan> run() {
    size_t known = 0;
    for (PlanStep& step : made_.steps) {
      const size_t known_before = known;
      known += step.tensors.size();
      const Tensors tensors = Tensors(tensors_).first(known);
      plan_ = step.after_operation ? go_on(tensors, known_before, *step.after_operation)
                                   : begin(tensors);
      step.total_bytes = bytes_of(plan_);
    }
    made_.plan = by_number(std::move(plan_));
    return std::move(made_);
  }

 private:
  /// The best plan so far.
  struct Best {
    std::optional<Plan> plan;
    std::pair<uint64_t, uint64_t> key;
  };

  Late late_after(size_t known) const {
    Late late;
    if (rule_ != StepRule::room_kept) return late;
    for (size_t i = known; i < std::min(tensors_.size(), known + late_max); ++i) {
      late.push_back({tensors_[i].first_operation, tensors_[i].last_operation, 0});
    }
    return late;
  }

  void consider(Best& best, Tensors tensors, const Late& late, Plan plan) const {
    const std::pair key(bytes_of(plan), below_late(tensors, late, plan));
    if (best.plan && key >= best.key) return;
    best = {std::move(plan), key};
  }

  Plan begin(Tensors tensors) const {
    if (rule_ == StepRule::greedy_by_size) return strategies_of(plan_).front().plan(tensors);
    const Late late = late_after(tensors.size());
    Best best;
    consider(best, tensors, late, best_static(tensors, limit_, plan_));
    if (!late.empty()) try_all(best, tensors, late, {}, bound_of(tensors, plan_));
    return *best.plan;
  }

  Plan go_on(Tensors tensors, size_t known_before, uint32_t after_operation) const {
    Earlier<Plan> earlier = {plan_, std::vector<bool>(tensors.size())};
    std::fill_n(earlier.is_kept.begin(), known_before, true);
    const uint64_t enough_bytes = std::max(bytes_of(plan_), bound_of(tensors, plan_));
    const Late late = late_after(tensors.size());
    Best best;
    try_all(best, tensors, late, earlier, enough_bytes);
    const bool is_done = late.empty() && bytes_of(*best.plan) == enough_bytes;
    const bool may_move = rule_ == StepRule::unbegun_move || rule_ == StepRule::room_kept;
    if (!may_move || is_done) return *best.plan;
    for (size_t i = 0; i < known_before; ++i) {
      earlier.is_kept[i] = tensors[i].first_operation <= after_operation;
    }
    try_all(best, tensors, late, earlier, enough_bytes);
    return *best.plan;
  }

  /// At least one strategy is tried.
  void try_all(Best& best, Tensors tensors, const Late& late, const Earlier<Plan>& earlier,
               uint64_t enough_bytes) const {
    const auto is_done = [&] {
      return (late.empty() && bytes_of(*best.plan) == enough_bytes) || limit_.is_over();
    };
    for (const Strategy<Plan>& strategy : strategies_of(plan_)) {
      if (strategy.only_begins) continue;
      consider(best, tensors, late, strategy.go_on(tensors, earlier));
      if (rule_ == StepRule::greedy_by_size || is_done()) return;
    }
    if (!late.empty()) consider(best, tensors, late, neighbours_first(tensors, late, earlier));
    if (auto found = search_orders(tensors, late, earlier, enough_bytes)) {
      consider(best, tensors, late, std::move(*found));
    }
  }

  OffsetPlan by_number(OffsetPlan plan) const {
    return {by_number(plan.offset_bytes), plan.total_bytes};
  }
  SharedObjectsPlan by_number(SharedObjectsPlan plan) const {
    return {by_number(plan.object), std::move(plan.object_bytes)};
  }
  template <typename Value>
  std::vector<Value> by_number(const std::vector<Value>& values) const {
    std::vector<Value> sorted(values.size());
    for (size_t i = 0; i < values.size(); ++i) sorted[number_[i]] = values[i];
    return sorted;
  }

  StepRule rule_;
  const TimeLimit& limit_;
  std::vector<uint32_t> number_;      // of the tensors, by when they become known
  std::vector<TensorUsage> tensors_;  // in the same order
  SteppedPlan<Plan> made_;
  Plan plan_;  // of the tensors that are known, in the same order
};

}  // namespace

const char* name(StepRule rule) {
  switch (rule) {
    case StepRule::greedy_by_size:
      return "greedy by size";
    case StepRule::placed_stay:
      return "placed stay";
    case StepRule::unbegun_move:
      return "unbegun move";
    case StepRule::room_kept:
      break;
  }
  return "room kept";
}

SteppedPlan<OffsetPlan> plan_offsets_in_steps(Tensors tensors, KnownAfter known_after,
                                              StepRule rule, const TimeLimit& limit) {
  return Steps<OffsetPlan>(tensors, known_after, rule, limit).run();
}

SteppedPlan<SharedObjectsPlan> share_objects_in_steps(Tensors tensors, KnownAfter known_after,
                                                      StepRule rule, const TimeLimit& limit) {
  return Steps<SharedObjectsPlan>(tensors, known_after, rule, limit).run();
}

}  // namespace weightpager::memory
