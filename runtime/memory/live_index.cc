#include "runtime/memory/live_index.h"

#include <bit>
#include <numeric>

namespace weightpager::memory {

LiveIndex::LiveIndex(Tensors tensors)
    : tensors_(tensors),
      order_(tensors.size()),
      place_(tensors.size()),
      leaves_(std::bit_ceil(std::max<uint32_t>(1, static_cast<uint32_t>(tensors.size())))),
      ended_(2 * size_t{leaves_}) {
  std::iota(order_.begin(), order_.end(), 0);
  std::stable_sort(order_.begin(), order_.end(), [&](uint32_t left, uint32_t right) {
    return tensors[left].first_operation < tensors[right].first_operation;
  });
  for (uint32_t place = 0; place < order_.size(); ++place) place_[order_[place]] = place;
}

LiveIndex LiveIndex::of_all(Tensors tensors) {
  LiveIndex index(tensors);
  for (uint32_t tensor = 0; tensor < tensors.size(); ++tensor) index.insert(tensor);
  return index;
}

void LiveIndex::insert(uint32_t tensor) {
  const uint64_t ended = uint64_t{tensors_[tensor].last_operation} + 1;
  for (uint32_t node = leaves_ + place_[tensor]; node > 0; node /= 2) {
    ended_[node] = std::max(ended_[node], ended);
  }
}

std::vector<uint32_t> LiveIndex::live_within(uint32_t first_operation,
                                             uint32_t last_operation) const {
  const auto begun = std::partition_point(order_.begin(), order_.end(), [&](uint32_t tensor) {
    return tensors_[tensor].first_operation <= last_operation;
  });
  std::vector<uint32_t> found;
  find(1, first_operation, static_cast<size_t>(begun - order_.begin()), found);
  return found;
}

void LiveIndex::find(uint32_t node, uint32_t first_operation, size_t begun,
                     std::vector<uint32_t>& found) const {
  // The first place under the node: its leftmost leaf.
  const auto level = static_cast<uint32_t>(std::bit_width(leaves_) - std::bit_width(node));
  const uint32_t leftmost = (node << level) - leaves_;
  if (leftmost >= begun || ended_[node] <= first_operation) return;
  if (node >= leaves_) return found.push_back(order_[leftmost]);
  find(2 * node, first_operation, begun, found);
  find(2 * node + 1, first_operation, begun, found);
}

}  // namespace weightpager::memory
