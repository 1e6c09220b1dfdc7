#include "pager/policy/baselines/demand_paging.h"

namespace weightpager::policy {

Action DemandPaging::victim(bool /*for_demand*/) {
  for (uint64_t steps = 2 * uint64_t{ages_.size()}; steps > 0; --steps) {
    const ChunkId chunk = ages_.back();
    ages_.put_front(chunk);
    if (!is_evictable(chunk) || is_recent(chunk)) continue;
    if (!is_referenced_[chunk]) return evict(chunk);
    is_referenced_[chunk] = false;
    if (can_be_hidden(chunk)) return {Action::Kind::hide, chunk};
  }
  return {};
}

}  // namespace weightpager::policy
