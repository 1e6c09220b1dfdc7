#include "runtime/memory/strip_packing.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <vector>

namespace weightpager::memory {
namespace {

/// The operations from `begin` up to, not including, `end`.
struct Part {
  uint64_t begin = 0;
  uint64_t end = 0;
  uint64_t height_bytes = 0;
};

class Strip {
 public:
  Strip(Tensors tensors, StripTies ties) : tensors_(tensors), waiting_(tensors.size()) {
    std::iota(waiting_.begin(), waiting_.end(), 0);
    std::sort(waiting_.begin(), waiting_.end(),
              [&](uint32_t left, uint32_t right) { return key(left, ties) < key(right, ties); });
    uint64_t end = 0;
    for (const TensorUsage& it : tensors) end = std::max(end, end_of(it));
    skyline_.push_back({0, end, 0});
    plan_.offset_bytes.resize(tensors.size());
  }

  OffsetPlan pack() {
    while (!waiting_.empty()) {
      const auto lowest = std::min_element(skyline_.begin(), skyline_.end(),
                                           [](const Part& left, const Part& right) {
                                             return left.height_bytes < right.height_bytes;
                                           });
      const auto tensor = std::find_if(waiting_.begin(), waiting_.end(), [&](uint32_t it) {
        return tensors_[it].first_operation >= lowest->begin && end_of(tensors_[it]) <= lowest->end;
      });
      if (tensor == waiting_.end()) {
        lift(lowest);
      } else {
        place(*tensor, lowest);
        waiting_.erase(tensor);
      }
    }
    return std::move(plan_);
  }

 private:
  using Place = std::vector<Part>::iterator;

  static uint64_t end_of(const TensorUsage& it) { return uint64_t{it.last_operation} + 1; }

  /// The tensor with the least key comes first.
  std::tuple<uint32_t, uint64_t, uint32_t> key(uint32_t tensor, StripTies ties) const {
    const TensorUsage& it = tensors_[tensor];
    return {UINT32_MAX - (it.last_operation - it.first_operation),
            ties == StripTies::larger_first ? UINT64_MAX - it.size_bytes : 0,
            ties == StripTies::later_first ? UINT32_MAX - tensor : tensor};
  }

  /// The only part is never lifted: every tensor that waits lives within it.
  void lift(Place part) {
    const uint64_t left = part == skyline_.begin() ? UINT64_MAX : (part - 1)->height_bytes;
    const uint64_t right = part + 1 == skyline_.end() ? UINT64_MAX : (part + 1)->height_bytes;
    part->height_bytes = std::min(left, right);
    merge_equals();
  }

  void place(uint32_t tensor, Place part) {
    const TensorUsage& it = tensors_[tensor];
    const Part whole = *part;
    plan_.offset_bytes[tensor] = whole.height_bytes;
    const uint64_t top = whole.height_bytes + it.size_bytes;
    plan_.total_bytes = std::max(plan_.total_bytes, top);
    *part = {it.first_operation, end_of(it), top};
    if (end_of(it) < whole.end) {
      part = skyline_.insert(part + 1, {end_of(it), whole.end, whole.height_bytes}) - 1;
    }
    if (whole.begin < it.first_operation) {
      skyline_.insert(part, {whole.begin, it.first_operation, whole.height_bytes});
    }
    merge_equals();
  }

  void merge_equals() {
    size_t last = 0;
    for (size_t next = 1; next < skyline_.size(); ++next) {
      if (skyline_[next].height_bytes == skyline_[last].height_bytes) {
        skyline_[last].end = skyline_[next].end;
      } else {
        skyline_[++last] = skyline_[next];
      }
    }
    skyline_.resize(last + 1);
  }

  Tensors tensors_;
  std::vector<uint32_t> waiting_;  // the next tensor is in front
  std::vector<Part> skyline_;      // from left to right, without gaps
  OffsetPlan plan_;
};

}  // namespace

OffsetPlan pack_strip(Tensors tensors, StripTies ties) { return Strip(tensors, ties).pack(); }

}  // namespace weightpager::memory
