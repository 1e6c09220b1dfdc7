// The slots that no chunk has.
//
// Problem. Chunks that lie beside each other in a file are read, shown and taken out together (one
// request, one call of the kernel) if their slots lie beside each other, too. Slots that are handed
// out in the order in which they came back are soon shuffled.
//
// Idea. One bit per slot. A chunk gets the slot that lies as far from its neighbour's slot as the
// two chunks lie apart in the file, if that slot is free (chunk_table.cc). Otherwise it begins a
// run of its own, in the shortest run of free slots that suffices for it and the chunks that will
// follow, so that long runs stay whole.
//
// Cost: O(1) beside a neighbour; otherwise O(slots / 64), which for a window of 4 GiB is 32 (in
// chunks of 2 MiB) to 1024 (of 64 KiB). Allocates only in `add`, when a slot is larger than all
// before.
#pragma once

#include <cstdint>
#include <vector>

namespace weightpager::window {

using SlotId = uint32_t;
inline constexpr SlotId no_slot = UINT32_MAX;

class FreeSlots {
 public:
  uint32_t count() const { return count_; }
  bool contains(SlotId slot) const {
    return slot / bits < words_.size() && (words_[slot / bits] >> slot % bits & 1) != 0;
  }

  /// Requires !contains(slot).
  void add(SlotId slot);
  /// Requires contains(slot).
  void take(SlotId slot);

  /// The first slot of the shortest run of at least `length`; if there is none, of the longest one.
  /// Of runs of equal length, the first counts. Requires count() > 0.
  SlotId fitting(uint32_t length) const;
  /// The last slot. Requires count() > 0.
  SlotId last() const;

 private:
  static constexpr uint32_t bits = 64;

  std::vector<uint64_t> words_;
  uint32_t count_ = 0;
};

}  // namespace weightpager::window
