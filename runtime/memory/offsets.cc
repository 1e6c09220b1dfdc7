#include "runtime/memory/offsets.h"

#include <algorithm>
#include <span>

namespace weightpager::memory {
namespace {

/// `placed` are in the order of their offsets.
uint64_t smallest_gap(Tensors tensors, uint32_t tensor, std::span<const uint32_t> placed,
                      const OffsetPlan& plan) {
  uint64_t best = UINT64_MAX;
  uint64_t best_gap = UINT64_MAX;
  uint64_t end = 0;
  for (const uint32_t other : placed) {
    if (!tensors[tensor].is_live_with(tensors[other])) continue;
    const uint64_t offset = plan.offset_bytes[other];
    if (offset >= end + tensors[tensor].size_bytes && offset - end < best_gap) {
      best_gap = offset - end;
      best = end;
    }
    end = std::max(end, offset + tensors[other].size_bytes);
  }
  return best_gap == UINT64_MAX ? end : best;
}

}  // namespace

OffsetPlan place_in_order(Tensors tensors, const Order& order) {
  OffsetPlan plan;
  plan.offset_bytes.resize(tensors.size());
  std::vector<uint32_t> placed;
  placed.reserve(tensors.size());
  const auto by_offset = [&](uint32_t left, uint32_t right) {
    return plan.offset_bytes[left] < plan.offset_bytes[right];
  };
  for (const uint32_t tensor : order) {
    const uint64_t offset = smallest_gap(tensors, tensor, placed, plan);
    plan.offset_bytes[tensor] = offset;
    plan.total_bytes = std::max(plan.total_bytes, offset + tensors[tensor].size_bytes);
    placed.insert(std::upper_bound(placed.begin(), placed.end(), tensor, by_offset), tensor);
  }
  return plan;
}

}  // namespace weightpager::memory
