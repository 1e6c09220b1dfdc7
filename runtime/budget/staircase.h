// A network's delay by its budget: all the steps of a function that never rises.
//
// Why. Several networks share one memory, and who gets how much is asked again whenever the budget
// changes. What each of them does with its share is the expensive question; it is answered once,
// for all shares, and then looked up.
//
// Where the steps come from: from the blocks of SwapNet (exactly: each step's
// begin by bisection, and just below it the next), or from windows as our runtime uses them (on a
// grid: window_plans.h).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "pager/base/result.h"
#include "runtime/budget/blocks.h"

namespace weightpager::budget {

struct Step {
  /// From here on, to the next step …
  uint64_t budget_bytes = 0;
  /// … the network takes this long.
  uint64_t delay_ns = 0;
  bool operator==(const Step&) const = default;
};

class Staircase {
 public:
  /// Budgets rise, delays fall, there is at least one step.
  explicit Staircase(std::vector<Step> steps);

  /// Below it the network has no plan.
  uint64_t least_bytes() const { return steps_.front().budget_bytes; }
  /// `budget_bytes` is the least or more.
  uint64_t delay_ns(uint64_t budget_bytes) const { return step(budget_bytes).delay_ns; }
  size_t step_number(uint64_t budget_bytes) const;
  /// The least budget with a delay of at most that; nothing if no budget does it.
  std::optional<uint64_t> least_bytes_for(uint64_t delay_max_ns) const;
  const std::vector<Step>& steps() const { return steps_; }

 private:
  const Step& step(uint64_t budget_bytes) const { return steps_[step_number(budget_bytes)]; }
  std::vector<Step> steps_;
};

/// Of plan_blocks, down from the whole model's bytes. A budget that takes the whole model is no
/// different here: it is read, block by block, in every pass.
struct BlockSteps {
  Staircase staircase;
  /// From here on all is exact; nothing: nowhere, as time was over before.
  std::optional<uint64_t> exact_from_bytes;
  /// At budgets below, delays may be longer than the least there can be, by this share of it at
  /// most: they are of blocks of groups, at some budgets.
  double excess_max = 0;
};
BlockSteps block_staircase(const BlockedNetwork& network, const TimeLimit& limit = {});

}  // namespace weightpager::budget
