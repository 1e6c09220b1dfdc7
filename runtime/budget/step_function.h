// A network's delay by its budget, as a step function that never rises.
//
// Problem. Several networks share one memory, which is divided anew whenever the budget changes. It
// is expensive to find out how long a network takes with a share.
//
// Idea. The delays are calculated once, for all shares, and then looked up.
//
// The steps come either from the blocks of SwapNet, exactly (bisection finds where a step begins,
// and the next step is just below), or from our runtime's windows, on a grid (window_plans.h).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "pager/base/result.h"
#include "runtime/budget/blocks.h"

namespace weightpager::budget {

struct Step {
  /// This step holds from this budget on, up to the next step's.
  uint64_t budget_bytes = 0;
  /// The network's delay in this step.
  uint64_t delay_ns = 0;
  bool operator==(const Step&) const = default;
};

class StepFunction {
 public:
  /// Budgets rise, delays fall, and there is at least one step.
  explicit StepFunction(std::vector<Step> steps);

  /// The network has no plan for a smaller budget.
  uint64_t least_bytes() const { return steps_.front().budget_bytes; }
  /// `budget_bytes` is at least `least_bytes`.
  uint64_t delay_ns(uint64_t budget_bytes) const { return step(budget_bytes).delay_ns; }
  size_t step_number(uint64_t budget_bytes) const;
  /// The least budget with a delay of at most `delay_max_ns`; nothing if no budget has one.
  std::optional<uint64_t> least_bytes_for(uint64_t delay_max_ns) const;
  const std::vector<Step>& steps() const { return steps_; }

 private:
  const Step& step(uint64_t budget_bytes) const { return steps_[step_number(budget_bytes)]; }
  std::vector<Step> steps_;
};

/// The blocks of plan_blocks and their delays, for all budgets up to the model's bytes. Even in a
/// budget of the whole model, every pass reads the model, block by block.
struct BlockSteps {
  StepFunction delay_steps;
  /// By step: the blocks that take its delay.
  std::vector<BlockEnds> ends;
  /// From this budget on, delays are exact. Nothing if time was over before any were.
  std::optional<uint64_t> exact_from_bytes;
  /// At smaller budgets, delays may be longer than the least possible ones, at most by this
  /// fraction of them. They were calculated for some budgets only, with blocks that consist of
  /// groups of layers.
  double excess_max = 0;
};
BlockSteps block_delay_steps(const BlockedNetwork& network, const TimeLimit& limit = {},
                             uint32_t blocks = any_number_of_blocks);

}  // namespace weightpager::budget
