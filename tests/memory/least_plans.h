// The least that any plan of a few tensors takes, by trying all.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "runtime/memory/orders.h"
#include "runtime/memory/plan.h"

namespace weightpager::memory {

/// The least of all ways to put tensors from `next` on into objects.
inline uint64_t least_shared_bytes(Tensors tensors, std::vector<std::vector<uint32_t>>& objects,
                                   uint32_t next) {
  if (next == tensors.size()) {
    uint64_t sum = 0;
    for (const auto& held : objects) {
      uint64_t largest = 0;
      for (const uint32_t it : held) largest = std::max(largest, tensors[it].size_bytes);
      sum += largest;
    }
    return sum;
  }
  uint64_t least = UINT64_MAX;
  for (size_t object = 0; object <= objects.size(); ++object) {
    const bool is_new = object == objects.size();
    if (is_new) objects.emplace_back();
    const bool is_suitable =
        std::none_of(objects[object].begin(), objects[object].end(),
                     [&](uint32_t held) { return tensors[held].is_live_with(tensors[next]); });
    if (is_suitable) {
      objects[object].push_back(next);
      least = std::min(least, least_shared_bytes(tensors, objects, next + 1));
      objects[object].pop_back();
    }
    if (is_new) {
      objects.pop_back();
      break;
    }
  }
  return least;
}

inline uint64_t least_shared_bytes(Tensors tensors) {
  std::vector<std::vector<uint32_t>> objects;
  return least_shared_bytes(tensors, objects, 0);
}

/// What is live at the operation where it is most: no packing is smaller.
inline uint64_t most_live_bytes(Tensors tensors) {
  uint64_t most = 0;
  for (const TensorUsage& at : tensors) {
    uint64_t live = 0;
    for (const TensorUsage& it : tensors) {
      const bool is_live =
          it.first_operation <= at.first_operation && at.first_operation <= it.last_operation;
      if (is_live) live += it.size_bytes;
    }
    most = std::max(most, live);
  }
  return most;
}

/// Every packing can be pushed down until each tensor lies on another or on the ground, so the
/// least is among those that put tensors, in some order, as low as they go.
inline uint64_t least_offset_bytes(Tensors tensors) {
  Order order(tensors.size());
  std::iota(order.begin(), order.end(), 0);
  const uint64_t bound = most_live_bytes(tensors);
  uint64_t least = UINT64_MAX;
  do {
    std::vector<uint64_t> offsets(tensors.size());
    uint64_t total = 0;
    for (size_t turn = 0; turn < order.size(); ++turn) {
      const TensorUsage& tensor = tensors[order[turn]];
      uint64_t lowest = UINT64_MAX;
      std::vector<uint64_t> candidates = {0};
      const auto is_free = [&](uint64_t offset) {
        return std::none_of(order.begin(), order.begin() + static_cast<ptrdiff_t>(turn),
                            [&](uint32_t other) {
                              return tensor.is_live_with(tensors[other]) &&
                                     offset < offsets[other] + tensors[other].size_bytes &&
                                     offsets[other] < offset + tensor.size_bytes;
                            });
      };
      for (size_t i = 0; i < turn; ++i) {
        candidates.push_back(offsets[order[i]] + tensors[order[i]].size_bytes);
      }
      for (const uint64_t offset : candidates) {
        if (is_free(offset)) lowest = std::min(lowest, offset);
      }
      offsets[order[turn]] = lowest;
      total = std::max(total, lowest + tensor.size_bytes);
    }
    least = std::min(least, total);
  } while (least > bound && std::next_permutation(order.begin(), order.end()));
  return least;
}

}  // namespace weightpager::memory
