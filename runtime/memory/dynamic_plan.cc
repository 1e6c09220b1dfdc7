#include "runtime/memory/dynamic_plan.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "pager/base/assert.h"
#include "runtime/memory/bounds.h"
#include "runtime/memory/order_search.h"
#include "runtime/memory/portfolio.h"

namespace weightpager::memory {
namespace {

/// The pairs of tensors that swaps may look at in a step: 2 ms. It may not depend on how many steps
/// follow, which nobody knows.
constexpr uint64_t step_swap_work = 1 << 20;
constexpr uint64_t step_swap_trials_max = 200;

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

template <typename Plan>
void keep_smaller(std::optional<Plan>& best, Plan plan) {
  if (!best || bytes_of(plan) < bytes_of(*best)) best = std::move(plan);
}

void try_other_orders(std::optional<OffsetPlan>& best, Tensors tensors,
                      const Earlier<OffsetPlan>& earlier, uint64_t enough_bytes) {
  const uint64_t trials = std::clamp<uint64_t>(
      step_swap_work / (uint64_t{tensors.size()} * tensors.size()), 1, step_swap_trials_max);
  keep_smaller(best, place_by_swaps(tensors, by_size(tensors, Ties::earlier_first), enough_bytes,
                                    trials, earlier)
                         .plan);
}
/// Objects have no search that goes on from an earlier plan.
void try_other_orders(std::optional<SharedObjectsPlan>&, Tensors, const Earlier<SharedObjectsPlan>&,
                      uint64_t) {}

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
  Plan begin(Tensors tensors) const {
    return rule_ == StepRule::greedy_by_size ? strategies_of(plan_).front().plan(tensors)
                                             : best_static(tensors, limit_, plan_);
  }

  Plan go_on(Tensors tensors, size_t known_before, uint32_t after_operation) const {
    Earlier<Plan> earlier = {plan_, std::vector<bool>(tensors.size())};
    std::fill_n(earlier.is_kept.begin(), known_before, true);
    const uint64_t enough_bytes = std::max(bytes_of(plan_), bound_of(tensors, plan_));
    std::optional<Plan> best;
    try_all(best, tensors, earlier, enough_bytes);
    if (rule_ != StepRule::unbegun_move || bytes_of(*best) == enough_bytes) return *best;
    for (size_t i = 0; i < known_before; ++i) {
      earlier.is_kept[i] = tensors[i].first_operation <= after_operation;
    }
    try_all(best, tensors, earlier, enough_bytes);
    return *best;
  }

  /// At least one strategy is tried.
  void try_all(std::optional<Plan>& best, Tensors tensors, const Earlier<Plan>& earlier,
               uint64_t enough_bytes) const {
    for (const Strategy<Plan>& strategy : strategies_of(plan_)) {
      if (strategy.only_begins) continue;
      keep_smaller(best, strategy.go_on(tensors, earlier));
      const bool is_done = bytes_of(*best) == enough_bytes || rule_ == StepRule::greedy_by_size;
      if (is_done || limit_.is_over()) return;
    }
    try_other_orders(best, tensors, earlier, enough_bytes);
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
      break;
  }
  return "unbegun move";
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
