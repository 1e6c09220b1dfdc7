// Which tensors are live at some time, found without looking at all of them.
//
// Networks have thousands of tensors, of which a few are live at once. A tree over the tensors, in
// the order in which they begin, knows of each part the last operation of those in it: whatever has
// ended before is passed over as a whole. Finding k of n takes O(k log n).
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "runtime/memory/usage.h"

namespace weightpager::memory {

class LiveIndex {
 public:
  /// Holds nobody yet. The tensors must outlive it.
  explicit LiveIndex(Tensors tensors);
  /// Holds them all.
  static LiveIndex of_all(Tensors tensors);

  void insert(uint32_t tensor);

  /// Those in it that are live at any of the operations, in the order in which they begin.
  std::vector<uint32_t> live_within(uint32_t first_operation, uint32_t last_operation) const;

 private:
  void find(uint32_t node, uint32_t first_operation, size_t begun,
            std::vector<uint32_t>& found) const;

  Tensors tensors_;
  std::vector<uint32_t> order_;  // as they begin
  std::vector<uint32_t> place_;  // by tensor: where it is in order_
  uint32_t leaves_ = 1;
  /// A binary heap over order_: when the last one in a part has ended; 0 where there is nobody.
  std::vector<uint64_t> ended_;
};

}  // namespace weightpager::memory
