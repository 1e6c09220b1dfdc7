#include "runtime/memory/orders.h"

#include <algorithm>
#include <numeric>

#include "runtime/memory/live_index.h"

namespace weightpager::memory {
namespace {

/// Sorts items, which are in execution order, by a key, the largest first.
template <typename Item, typename Key>
void sort_largest_first(std::vector<Item>& items, Ties ties, Key key) {
  if (ties == Ties::later_first) std::reverse(items.begin(), items.end());
  std::stable_sort(items.begin(), items.end(),
                   [&](const Item& left, const Item& right) { return key(left) > key(right); });
}

Order all_of(Tensors tensors) {
  Order order(tensors.size());
  std::iota(order.begin(), order.end(), 0);
  return order;
}

}  // namespace

Order by_size(Tensors tensors, Ties ties) {
  Order order = all_of(tensors);
  sort_largest_first(order, ties, [&](uint32_t it) { return tensors[it].size_bytes; });
  return order;
}

Order by_breadth(Tensors tensors, Ties operation_ties, Ties tensor_ties) {
  std::vector<Breadth> broadest_first = breadths(tensors);
  sort_largest_first(broadest_first, operation_ties,
                     [](const Breadth& it) { return it.size_bytes; });
  const LiveIndex index = LiveIndex::of_all(tensors);
  Order order;
  std::vector<bool> is_taken(tensors.size());
  for (const Breadth& breadth : broadest_first) {
    Order live = index.live_within(breadth.operation, breadth.operation);
    std::sort(live.begin(), live.end());
    sort_largest_first(live, tensor_ties, [&](uint32_t it) { return tensors[it].size_bytes; });
    for (const uint32_t tensor : live) {
      if (!is_taken[tensor]) order.push_back(tensor);
      is_taken[tensor] = true;
    }
  }
  return order;
}

Order by_execution(Tensors tensors) {
  Order order = all_of(tensors);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t left, uint32_t right) {
    return tensors[left].first_operation < tensors[right].first_operation;
  });
  return order;
}

}  // namespace weightpager::memory
