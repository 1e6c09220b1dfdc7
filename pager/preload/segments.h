// The parts of address ranges, in the order of their addresses: those that are in use, and those
// that are free.
//
// The parts lie side by side without gaps. The tree answers two questions: which part has this
// address, and which is the first free part of at least this length. For the second question each
// node knows the longest free part below itself. The tree is a treap: a binary search tree by
// address, and a heap by a random number, which keeps it balanced (13 levels deep for 1000 parts).
//
// Nodes come from a pool that grows by the kernel's mmap, because the allocator that stands on this
// tree is the process's malloc. Pure apart from that. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weightpager::preload {

struct Segment {
  uintptr_t begin = 0;
  size_t length_bytes = 0;
  size_t arena = 0;
  bool is_free = false;
  // Of a part in use: see LargeBlocks::Block.
  size_t asked_bytes = 0;
  size_t used_bytes = 0;
  uint64_t note = 0;

  uintptr_t end() const { return begin + length_bytes; }

  // The tree's.
  Segment* left = nullptr;
  Segment* right = nullptr;
  size_t free_bytes_max = 0;
  uint32_t priority = 0;
};

class Segments {
 public:
  /// Makes sure that so many nodes can be had by `make`. Returns false if there is no memory.
  bool reserve(size_t count);
  /// A node that is in no tree; `reserve` has made room for it.
  Segment* make();
  void recycle(Segment* segment);

  void insert(Segment* segment);
  void erase(Segment* segment);
  /// Called after a change of the length, or of `is_free`, of a part that is in the tree.
  void note_change(const Segment* segment);

  /// The part that has the address; nullptr if there is none.
  Segment* at(uintptr_t address) const;
  /// The first free part of at least this length; nullptr if there is none.
  Segment* first_free(size_t length_bytes) const;

 private:
  Segment* root_ = nullptr;
  Segment* unused_ = nullptr;  // linked by `right`
  size_t unused_count_ = 0;
  uint32_t random_ = 2463534242;
};

}  // namespace weightpager::preload
