#include "runtime/memory/offsets.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <span>
#include <vector>

#include "runtime/memory/live_index.h"

namespace weightpager::memory {
namespace {

/// `beside`: the placed tensors that are live with this one, in the order of their offsets.
uint64_t smallest_gap(Tensors tensors, uint32_t tensor, std::span<const uint32_t> beside,
                      const OffsetPlan& plan) {
  uint64_t best = UINT64_MAX;
  uint64_t best_gap = UINT64_MAX;
  uint64_t end = 0;
  for (const uint32_t other : beside) {
    const uint64_t offset = plan.offset_bytes[other];
    if (offset >= end + tensors[tensor].size_bytes && offset - end < best_gap) {
      best_gap = offset - end;
      best = end;
    }
    end = std::max(end, offset + tensors[other].size_bytes);
  }
  return best_gap == UINT64_MAX ? end : best;
}

/// The placed tensors: all in the order of offsets, and an index by time.
class Placed {
 public:
  Placed(Tensors tensors, const OffsetPlan& plan)
      : tensors_(tensors), plan_(plan), by_time_(tensors) {}

  void insert(uint32_t tensor) {
    by_time_.insert(tensor);
    const auto above =
        std::upper_bound(by_offset_.begin(), by_offset_.end(), tensor,
                         [&](uint32_t left, uint32_t right) { return is_below(left, right); });
    by_offset_.insert(above, tensor);
  }

  /// The placed tensors that are live with this one, in the order of offsets. It is faster to sort
  /// a few than to look at all, but faster to look at all than to sort most of them.
  std::vector<uint32_t> live_with(const TensorUsage& usage) const {
    std::vector<uint32_t> live = by_time_.live_within(usage.first_operation, usage.last_operation);
    if (live.size() * std::bit_width(live.size()) < by_offset_.size()) {
      std::sort(live.begin(), live.end(),
                [&](uint32_t left, uint32_t right) { return is_below(left, right); });
      return live;
    }
    live.clear();
    std::copy_if(by_offset_.begin(), by_offset_.end(), std::back_inserter(live),
                 [&](uint32_t other) { return usage.is_live_with(tensors_[other]); });
    return live;
  }

 private:
  bool is_below(uint32_t left, uint32_t right) const {
    return plan_.offset_bytes[left] < plan_.offset_bytes[right];
  }

  Tensors tensors_;
  const OffsetPlan& plan_;
  LiveIndex by_time_;
  std::vector<uint32_t> by_offset_;
};

}  // namespace

OffsetPlan place_in_order(Tensors tensors, const Order& order, const Earlier<OffsetPlan>& earlier) {
  OffsetPlan plan = earlier.plan;
  plan.offset_bytes.resize(tensors.size());
  Placed placed(tensors, plan);
  for (uint32_t tensor = 0; tensor < tensors.size(); ++tensor) {
    if (earlier.keeps(tensor)) placed.insert(tensor);
  }
  for (const uint32_t tensor : order) {
    if (earlier.keeps(tensor)) continue;
    const TensorUsage& usage = tensors[tensor];
    const uint64_t offset = smallest_gap(tensors, tensor, placed.live_with(usage), plan);
    plan.offset_bytes[tensor] = offset;
    plan.total_bytes = std::max(plan.total_bytes, offset + usage.size_bytes);
    placed.insert(tensor);
  }
  return plan;
}

}  // namespace weightpager::memory
