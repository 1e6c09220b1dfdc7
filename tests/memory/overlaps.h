// Whether what a strategy returns is a plan.
#pragma once

#include <cstdint>
#include <vector>

#include "pager/base/assert.h"
#include "runtime/memory/plan.h"

namespace weightpager::memory {

/// Two tensors that are live at the same time, in the same bytes or in the same object.
struct Overlap {
  uint32_t first = 0;
  uint32_t second = 0;
};

/// `fits` of one tensor, `meet` of two that are live at the same time.
template <typename Fits, typename Meet>
std::vector<Overlap> overlaps_of(Tensors tensors, Fits fits, Meet meet) {
  std::vector<Overlap> overlaps;
  for (uint32_t first = 0; first < tensors.size(); ++first) {
    if (!fits(first)) overlaps.push_back({first, first});
    for (uint32_t second = first + 1; second < tensors.size(); ++second) {
      if (tensors[first].is_live_with(tensors[second]) && meet(first, second)) {
        overlaps.push_back({first, second});
      }
    }
  }
  return overlaps;
}

/// Every overlap of a plan, and every tensor that reaches beyond the plan's end or does not fit
/// into its object (as an overlap with itself).
inline std::vector<Overlap> find_overlaps(Tensors tensors, const OffsetPlan& plan) {
  WP_ASSERT(plan.offset_bytes.size() == tensors.size());
  const auto begin = [&](uint32_t tensor) { return plan.offset_bytes[tensor]; };
  const auto end = [&](uint32_t tensor) { return begin(tensor) + tensors[tensor].size_bytes; };
  return overlaps_of(
      tensors, [&](uint32_t tensor) { return end(tensor) <= plan.total_bytes; },
      [&](uint32_t first, uint32_t second) {
        return begin(first) < end(second) && begin(second) < end(first);
      });
}

inline std::vector<Overlap> find_overlaps(Tensors tensors, const SharedObjectsPlan& plan) {
  WP_ASSERT(plan.object.size() == tensors.size());
  return overlaps_of(
      tensors,
      [&](uint32_t tensor) {
        const uint32_t object = plan.object[tensor];
        return object < plan.object_bytes.size() &&
               tensors[tensor].size_bytes <= plan.object_bytes[object];
      },
      [&](uint32_t first, uint32_t second) { return plan.object[first] == plan.object[second]; });
}

}  // namespace weightpager::memory
