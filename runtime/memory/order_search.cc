#include "runtime/memory/order_search.h"

#include <random>
#include <utility>

namespace weightpager::memory {

OrderSearch place_by_swaps(Tensors tensors, Order order, uint64_t enough_bytes, uint64_t trials_max,
                           const Earlier<OffsetPlan>& earlier, const AlsoSmall& also_small) {
  constexpr uint32_t seed = 1;
  std::mt19937 random(seed);
  const auto key = [&](const OffsetPlan& plan) {
    return std::pair(plan.total_bytes, also_small ? also_small(plan) : 0);
  };
  std::erase_if(order, [&](uint32_t tensor) { return earlier.keeps(tensor); });
  OrderSearch search{place_in_order(tensors, order, earlier), 1};
  // A single turn has nothing to swap with.
  if (order.size() < 2) return search;
  auto best = key(search.plan);
  while ((also_small || best.first > enough_bytes) && search.trials < trials_max) {
    // The remainder is the same with all libraries; a distribution is not.
    uint32_t& one = order[random() % order.size()];
    uint32_t& other = order[random() % order.size()];
    std::swap(one, other);
    OffsetPlan plan = place_in_order(tensors, order, earlier);
    ++search.trials;
    if (const auto found = key(plan); found <= best) {
      best = found;
      search.plan = std::move(plan);
    } else {
      std::swap(one, other);
    }
  }
  return search;
}

}  // namespace weightpager::memory
