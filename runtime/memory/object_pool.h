// The objects that a strategy has made so far, and which of them could take a tensor.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "runtime/memory/plan.h"

namespace weightpager::memory {

class ObjectPool {
 public:
  ObjectPool(Tensors tensors, const Earlier<SharedObjectsPlan>& earlier)
      : tensors_(tensors), plan_(earlier.plan), held_(plan_.object_bytes.size()) {
    plan_.object.resize(tensors.size());
    for (uint32_t tensor = 0; tensor < tensors.size(); ++tensor) {
      if (earlier.keeps(tensor)) held_[plan_.object[tensor]].push_back(tensor);
    }
  }

  uint32_t size() const { return static_cast<uint32_t>(held_.size()); }
  uint64_t bytes(uint32_t object) const { return plan_.object_bytes[object]; }

  /// Whether the object holds nothing while the tensor is live.
  bool is_suitable(uint32_t object, uint32_t tensor) const {
    return std::none_of(held_[object].begin(), held_[object].end(), [&](uint32_t held) {
      return tensors_[held].is_live_with(tensors_[tensor]);
    });
  }

  /// Returns the number of a new object, empty and of size 0.
  uint32_t add() {
    plan_.object_bytes.push_back(0);
    held_.emplace_back();
    return size() - 1;
  }

  /// The object grows where it is too small.
  void assign(uint32_t tensor, uint32_t object) {
    plan_.object[tensor] = object;
    plan_.object_bytes[object] = std::max(bytes(object), tensors_[tensor].size_bytes);
    held_[object].push_back(tensor);
  }

  SharedObjectsPlan take_plan() { return std::move(plan_); }

 private:
  Tensors tensors_;
  SharedObjectsPlan plan_;
  std::vector<std::vector<uint32_t>> held_;  // tensors, by object
};

}  // namespace weightpager::memory
