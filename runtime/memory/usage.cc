#include "runtime/memory/usage.h"

#include <map>

namespace weightpager::memory {

std::vector<Breadth> breadths(Tensors tensors) {
  // The beginnings and ends before each operation.
  struct Change {
    bool has_beginning = false;
    uint64_t added_bytes = 0;
    uint64_t dropped_bytes = 0;
  };
  std::map<uint64_t, Change> changes;
  for (const TensorUsage& tensor : tensors) {
    Change& beginning = changes[tensor.first_operation];
    beginning.has_beginning = true;
    beginning.added_bytes += tensor.size_bytes;
    changes[uint64_t{tensor.last_operation} + 1].dropped_bytes += tensor.size_bytes;
  }
  std::vector<Breadth> breadths;
  uint64_t live_bytes = 0;
  for (const auto& [operation, change] : changes) {
    live_bytes += change.added_bytes;
    live_bytes -= change.dropped_bytes;
    if (change.has_beginning) breadths.push_back({static_cast<uint32_t>(operation), live_bytes});
  }
  return breadths;
}

}  // namespace weightpager::memory
