// Finds the tensors that are live at some time, without a look at all of them.
//
// Networks have thousands of tensors, of which a few are live at once. The index is a tree over the
// tensors, in the order in which they begin. Each node knows the last operation of its tensors: a
// part that has ended before is passed over as a whole. To find k of n takes O(k log n).
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "runtime/memory/usage.h"

namespace weightpager::memory {

class LiveIndex {
 public:
  /// An empty index. The tensors must outlive it.
  explicit LiveIndex(Tensors tensors);
  /// An index of all tensors.
  static LiveIndex of_all(Tensors tensors);

  void insert(uint32_t tensor);

  /// The tensors of the index that are live at any of the operations, in the order in which they
  /// begin.
  std::vector<uint32_t> live_within(uint32_t first_operation, uint32_t last_operation) const;

 private:
  void find(uint32_t node, uint32_t first_operation, size_t begun,
            std::vector<uint32_t>& found) const;

  Tensors tensors_;
  std::vector<uint32_t> order_;  // tensors, as they begin
  std::vector<uint32_t> place_;  // by tensor: its place in order_
  uint32_t leaves_ = 1;
  /// A binary heap over order_: the operation after a part's last one; 0 for a part without
  /// tensors.
  std::vector<uint64_t> ended_;
};

}  // namespace weightpager::memory
