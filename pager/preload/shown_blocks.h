// The large blocks that exist now, for whoever looks on (pager/control): where each begins, and how
// long it is.
//
// Problem. The allocator knows its blocks, but only under a lock that an engine's thread may hold
// for as long as it likes: one that looks on must not wait for it.
//
// Idea. A table of a fixed size beside the allocator's own. A block's address says at which places
// of the table it may stand, so that it is added and taken out in a few steps, by atomic operations
// alone. Blocks that find no place are not shown; there are more than a thousand of them then.
//
// Cost: 64 KiB, of which only used pages are memory; some nanoseconds a block.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "pager/base/span.h"

namespace weightpager::preload {

/// Thread-safe, without locks. Never destroyed.
class ShownBlocks {
 public:
  static constexpr size_t places = 4096;

  /// Requires that no block of the table begins there.
  void add(uintptr_t begin, size_t length_bytes);
  void resize(uintptr_t begin, size_t length_bytes);
  void remove(uintptr_t begin);

  /// Writes the blocks that begin in the range, in any order, as many as there is room for; returns
  /// how many it wrote. Blocks that come or go meanwhile may be there or not.
  size_t list(const Span& range, std::span<Span> to) const;

 private:
  struct Place {
    std::atomic<uintptr_t> begin{0};  // 0: free
    std::atomic<size_t> length_bytes{0};
  };
  Place* find(uintptr_t begin);

  std::array<Place, places> table_;
};

}  // namespace weightpager::preload
