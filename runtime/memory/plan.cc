#include "runtime/memory/plan.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace weightpager::memory {
namespace {

uint64_t lower_bound_bytes(std::span<const TensorUsage> tensors) {
  // What is added or dropped before each operation.
  std::map<uint64_t, int64_t> changes;
  for (const TensorUsage& tensor : tensors) {
    changes[tensor.first_operation] += static_cast<int64_t>(tensor.size_bytes);
    changes[uint64_t{tensor.last_operation} + 1] -= static_cast<int64_t>(tensor.size_bytes);
  }
  int64_t live = 0;
  int64_t most = 0;
  for (const auto& [operation, change] : changes) most = std::max(most, live += change);
  return static_cast<uint64_t>(most);
}

std::vector<uint32_t> largest_first(std::span<const TensorUsage> tensors) {
  std::vector<uint32_t> order(tensors.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t left, uint32_t right) {
    return tensors[left].size_bytes > tensors[right].size_bytes;
  });
  return order;
}

// `placed` are in the order of their offsets.
uint64_t smallest_gap(const TensorUsage& tensor, std::span<const uint32_t> placed,
                      std::span<const TensorUsage> tensors, const ActivationPlan& plan) {
  uint64_t best = UINT64_MAX;
  uint64_t best_gap = UINT64_MAX;
  uint64_t end = 0;
  for (const uint32_t other : placed) {
    if (!tensor.is_live_with(tensors[other])) continue;
    const uint64_t offset = plan.offset_bytes[other];
    if (offset >= end + tensor.size_bytes && offset - end < best_gap) {
      best_gap = offset - end;
      best = end;
    }
    end = std::max(end, offset + tensors[other].size_bytes);
  }
  return best_gap == UINT64_MAX ? end : best;
}

}  // namespace

ActivationPlan plan_activations(std::span<const TensorUsage> tensors) {
  ActivationPlan plan;
  plan.offset_bytes.resize(tensors.size());
  plan.lower_bound_bytes = lower_bound_bytes(tensors);
  std::vector<uint32_t> placed;
  placed.reserve(tensors.size());
  const auto by_offset = [&](uint32_t left, uint32_t right) {
    return plan.offset_bytes[left] < plan.offset_bytes[right];
  };
  for (const uint32_t tensor : largest_first(tensors)) {
    const uint64_t offset = smallest_gap(tensors[tensor], placed, tensors, plan);
    plan.offset_bytes[tensor] = offset;
    plan.total_bytes = std::max(plan.total_bytes, offset + tensors[tensor].size_bytes);
    placed.insert(std::upper_bound(placed.begin(), placed.end(), tensor, by_offset), tensor);
  }
  return plan;
}

std::vector<Overlap> find_overlaps(std::span<const TensorUsage> tensors,
                                   const ActivationPlan& plan) {
  std::vector<Overlap> overlaps;
  const auto end = [&](uint32_t tensor) {
    return plan.offset_bytes[tensor] + tensors[tensor].size_bytes;
  };
  for (uint32_t first = 0; first < tensors.size(); ++first) {
    if (end(first) > plan.total_bytes) overlaps.push_back({first, first});
    for (uint32_t second = first + 1; second < tensors.size(); ++second) {
      if (tensors[first].is_live_with(tensors[second]) && plan.offset_bytes[first] < end(second) &&
          plan.offset_bytes[second] < end(first)) {
        overlaps.push_back({first, second});
      }
    }
  }
  return overlaps;
}

}  // namespace weightpager::memory
