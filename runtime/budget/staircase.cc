// See staircase.h.
#include "runtime/budget/staircase.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "pager/base/assert.h"

namespace weightpager::budget {

Staircase::Staircase(std::vector<Step> steps) : steps_(std::move(steps)) {
  WP_ASSERT(!steps_.empty());
  for (size_t i = 1; i < steps_.size(); ++i) {
    WP_ASSERT(steps_[i - 1].budget_bytes < steps_[i].budget_bytes);
    WP_ASSERT(steps_[i - 1].delay_ns > steps_[i].delay_ns);
  }
}

size_t Staircase::step_number(uint64_t budget_bytes) const {
  WP_ASSERT(budget_bytes >= least_bytes());
  const auto above =
      std::upper_bound(steps_.begin(), steps_.end(), budget_bytes,
                       [](uint64_t bytes, const Step& step) { return bytes < step.budget_bytes; });
  return static_cast<size_t>(above - steps_.begin()) - 1;
}

std::optional<uint64_t> Staircase::least_bytes_for(uint64_t delay_max_ns) const {
  const auto found =
      std::lower_bound(steps_.begin(), steps_.end(), delay_max_ns,
                       [](const Step& step, uint64_t ns) { return step.delay_ns > ns; });
  if (found == steps_.end()) return std::nullopt;
  return found->budget_bytes;
}

namespace {

// The least budget in which blocks keep to the delay of a plan: by bisection, each time down to
// what the blocks that were found need.
uint64_t step_begin_bytes(const BlockedNetwork& network, const BlockPlan& plan,
                          uint64_t least_bytes, const TimeLimit& limit) {
  uint64_t low_bytes = least_bytes, high_bytes = plan.peak_bytes;
  while (low_bytes < high_bytes && !limit.is_over()) {
    const uint64_t middle_bytes = low_bytes + (high_bytes - low_bytes) / 2;
    const auto found = plan_blocks_within(network, middle_bytes, plan.delay_ns, limit);
    if (found) {
      high_bytes = found->peak_bytes;
    } else {
      low_bytes = middle_bytes + 1;
    }
  }
  return high_bytes;
}

// What there is below the last step when time is over.
void add_blocks_of_one_layer(const BlockedNetwork& network, uint64_t least_bytes,
                             std::vector<Step>& falling) {
  BlockEnds ones(network.layers.size());
  std::iota(ones.begin(), ones.end(), 1);
  const uint64_t ones_ns = delay_ns(network, ones);
  if (ones_ns <= falling.back().delay_ns) {
    falling.back().budget_bytes = least_bytes;
  } else {
    falling.push_back({least_bytes, ones_ns});
  }
}

}  // namespace

BlockSteps block_staircase(const BlockedNetwork& network, const TimeLimit& limit) {
  const uint64_t least_bytes = least_budget_bytes(network);
  std::vector<Step> falling;
  uint64_t exact_from_bytes = least_bytes;
  uint64_t budget_bytes =
      peak_bytes(network, BlockEnds{static_cast<uint32_t>(network.layers.size())});
  do {
    const auto plan = plan_blocks(network, budget_bytes, limit);
    WP_ASSERT(plan);
    if (limit.is_over()) {
      exact_from_bytes = falling.empty() ? budget_bytes + 1 : falling.back().budget_bytes;
      // Blocks that fit may be slower than those of one layer, which always do.
      if (falling.empty() || plan->delay_ns > falling.back().delay_ns) {
        falling.push_back({plan->peak_bytes, plan->delay_ns});
      }
      break;
    }
    falling.push_back({step_begin_bytes(network, *plan, least_bytes, limit), plan->delay_ns});
    budget_bytes = falling.back().budget_bytes - 1;
  } while (falling.back().budget_bytes > least_bytes);
  if (limit.is_over() && falling.back().budget_bytes > least_bytes) {
    add_blocks_of_one_layer(network, least_bytes, falling);
  }
  std::reverse(falling.begin(), falling.end());
  return {Staircase(std::move(falling)), exact_from_bytes};
}

}  // namespace weightpager::budget
