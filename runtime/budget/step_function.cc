// See step_function.h.
#include "runtime/budget/step_function.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "pager/base/assert.h"

namespace weightpager::budget {

StepFunction::StepFunction(std::vector<Step> steps) : steps_(std::move(steps)) {
  WP_ASSERT(!steps_.empty());
  for (size_t i = 1; i < steps_.size(); ++i) {
    WP_ASSERT(steps_[i - 1].budget_bytes < steps_[i].budget_bytes);
    WP_ASSERT(steps_[i - 1].delay_ns > steps_[i].delay_ns);
  }
}

size_t StepFunction::step_number(uint64_t budget_bytes) const {
  WP_ASSERT(budget_bytes >= least_bytes());
  const auto above =
      std::upper_bound(steps_.begin(), steps_.end(), budget_bytes,
                       [](uint64_t bytes, const Step& step) { return bytes < step.budget_bytes; });
  return static_cast<size_t>(above - steps_.begin()) - 1;
}

std::optional<uint64_t> StepFunction::least_bytes_for(uint64_t delay_max_ns) const {
  const auto found =
      std::lower_bound(steps_.begin(), steps_.end(), delay_max_ns,
                       [](const Step& step, uint64_t ns) { return step.delay_ns > ns; });
  if (found == steps_.end()) return std::nullopt;
  return found->budget_bytes;
}

namespace {

// Half as many as windows have (window_plans.h).
constexpr int coarse_budgets = 24;

// A step and its blocks.
struct PlannedStep {
  Step step;
  BlockEnds ends;
};

// The least budget in which blocks keep to the delay of a plan, and such blocks. By bisection, each
// time down to the bytes that the found blocks need.
PlannedStep step_of(const BlockedNetwork& network, BlockPlan plan, uint64_t least_bytes,
                    const TimeLimit& limit, uint32_t blocks) {
  uint64_t low_bytes = least_bytes;
  while (low_bytes < plan.peak_bytes && !limit.is_over()) {
    const uint64_t middle_bytes = low_bytes + (plan.peak_bytes - low_bytes) / 2;
    auto found = plan_blocks_within(network, middle_bytes, plan.delay_ns, limit, blocks);
    if (found) {
      plan = std::move(*found);
    } else {
      low_bytes = middle_bytes + 1;
    }
  }
  return {{plan.peak_bytes, plan.delay_ns}, std::move(plan.ends)};
}

// Adds steps of blocks that are good rather than best, at budgets each the same factor above the
// one before.
void add_coarse(const BlockedNetwork& network, uint64_t least_bytes, uint64_t most_bytes,
                uint32_t blocks, std::vector<PlannedStep>& steps) {
  const double ratio =
      static_cast<double>(most_bytes) / std::max(static_cast<double>(least_bytes), 1.0);
  for (int i = 0; i < coarse_budgets; ++i) {
    const double factor = std::pow(ratio, static_cast<double>(i) / (coarse_budgets - 1));
    const auto bytes = static_cast<uint64_t>(static_cast<double>(least_bytes) * factor);
    BlockPlan plan =
        plan_blocks_coarsely(network, std::clamp(bytes, least_bytes, most_bytes), blocks);
    // No blocks need less than `least_bytes`, because neighbouring layers already need that much.
    steps.push_back(
        {{std::max(plan.peak_bytes, least_bytes), plan.delay_ns}, std::move(plan.ends)});
  }
}

// Keeps steps of which budgets rise and delays fall.
void keep_steps(std::vector<PlannedStep>& steps) {
  std::sort(steps.begin(), steps.end(), [](const PlannedStep& left, const PlannedStep& right) {
    return std::tuple(left.step.budget_bytes, left.step.delay_ns) <
           std::tuple(right.step.budget_bytes, right.step.delay_ns);
  });
  uint64_t least_ns = UINT64_MAX;
  std::erase_if(steps, [&](const PlannedStep& it) {
    if (it.step.delay_ns >= least_ns) return true;
    least_ns = it.step.delay_ns;
    return false;
  });
}

// A step holds up to the next. Just below that one, the least possible delay is smallest.
double excess_below(const BlockedNetwork& network, const StepFunction& delay_steps,
                    uint64_t exact_from_bytes) {
  const std::vector<Step>& steps = delay_steps.steps();
  double excess_max = 0;
  for (size_t i = 0; i < steps.size() && steps[i].budget_bytes < exact_from_bytes; ++i) {
    const uint64_t end_bytes = i + 1 < steps.size() ? steps[i + 1].budget_bytes : UINT64_MAX;
    const uint64_t last_bytes = std::min(end_bytes, exact_from_bytes) - 1;
    const double least_ns = std::max(static_cast<double>(delay_bound_ns(network, last_bytes)), 1.0);
    excess_max = std::max(excess_max, static_cast<double>(steps[i].delay_ns) / least_ns - 1);
  }
  return excess_max;
}

}  // namespace

BlockSteps block_delay_steps(const BlockedNetwork& network, const TimeLimit& limit,
                             uint32_t blocks) {
  const uint64_t least_bytes = blocks == any_number_of_blocks ? least_budget_bytes(network)
                                                              : least_budget_bytes(network, blocks);
  const uint64_t model_bytes =
      peak_bytes(network, BlockEnds{static_cast<uint32_t>(network.layers.size())});
  std::vector<PlannedStep> steps;
  std::optional<uint64_t> exact_from_bytes;
  while (!exact_from_bytes || *exact_from_bytes > least_bytes) {
    auto plan =
        plan_blocks(network, exact_from_bytes ? *exact_from_bytes - 1 : model_bytes, limit, blocks);
    WP_ASSERT(plan);
    if (!plan->is_best) break;
    steps.push_back(step_of(network, std::move(*plan), least_bytes, limit, blocks));
    exact_from_bytes = steps.back().step.budget_bytes;
  }
  const bool is_exact = exact_from_bytes == least_bytes;
  if (!is_exact) {
    add_coarse(network, least_bytes, exact_from_bytes.value_or(model_bytes), blocks, steps);
  }
  keep_steps(steps);
  std::vector<Step> delay_steps;
  std::vector<BlockEnds> ends;
  for (PlannedStep& it : steps) {
    delay_steps.push_back(it.step);
    ends.push_back(std::move(it.ends));
  }
  BlockSteps made = {StepFunction(std::move(delay_steps)), std::move(ends), exact_from_bytes};
  if (!is_exact) {
    made.excess_max =
        excess_below(network, made.delay_steps, exact_from_bytes.value_or(UINT64_MAX));
  }
  return made;
}

}  // namespace weightpager::budget
