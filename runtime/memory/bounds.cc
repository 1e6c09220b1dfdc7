#include "runtime/memory/bounds.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "runtime/memory/live_index.h"

namespace weightpager::memory {

uint64_t unshared_bytes(Tensors tensors) {
  return std::accumulate(tensors.begin(), tensors.end(), uint64_t{0},
                         [](uint64_t sum, const TensorUsage& it) { return sum + it.size_bytes; });
}

uint64_t offsets_lower_bound_bytes(Tensors tensors) {
  uint64_t most = 0;
  for (const Breadth& breadth : breadths(tensors)) most = std::max(most, breadth.size_bytes);
  return most;
}

std::vector<uint64_t> positional_maxima_bytes(Tensors tensors) {
  const LiveIndex index = LiveIndex::of_all(tensors);
  std::vector<uint64_t> maxima;
  for (const Breadth& breadth : breadths(tensors)) {
    std::vector<uint64_t> sizes;
    for (const uint32_t tensor : index.live_within(breadth.operation, breadth.operation)) {
      sizes.push_back(tensors[tensor].size_bytes);
    }
    std::sort(sizes.begin(), sizes.end(), std::greater<>());
    maxima.resize(std::max(maxima.size(), sizes.size()));
    for (size_t k = 0; k < sizes.size(); ++k) maxima[k] = std::max(maxima[k], sizes[k]);
  }
  return maxima;
}

uint64_t shared_objects_lower_bound_bytes(Tensors tensors) {
  const std::vector<uint64_t> maxima = positional_maxima_bytes(tensors);
  return std::accumulate(maxima.begin(), maxima.end(), uint64_t{0});
}

}  // namespace weightpager::memory
