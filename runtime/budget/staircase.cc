// See staircase.h.
#include "runtime/budget/staircase.h"

#include <algorithm>
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

// The least delay in a budget is that of every budget down to the peak of its blocks. Just below,
// it may be the same with other blocks; then the step goes on.
Staircase block_staircase(const BlockedNetwork& network) {
  const uint64_t least_bytes = least_budget_bytes(network);
  std::vector<Step> falling;
  uint64_t budget_bytes =
      peak_bytes(network, BlockEnds{static_cast<uint32_t>(network.layers.size())});
  for (;;) {
    const auto plan = plan_blocks(network, budget_bytes);
    WP_ASSERT(plan);
    if (!falling.empty() && falling.back().delay_ns == plan->delay_ns) falling.pop_back();
    falling.push_back({plan->peak_bytes, plan->delay_ns});
    if (plan->peak_bytes <= least_bytes) break;
    budget_bytes = plan->peak_bytes - 1;
  }
  std::reverse(falling.begin(), falling.end());
  return Staircase(std::move(falling));
}

}  // namespace weightpager::budget
