#include "pager/window/free_slots.h"

#include <bit>
#include <cstddef>

#include "pager/base/assert.h"

namespace weightpager::window {

void FreeSlots::add(SlotId slot) {
  WP_ASSERT(!contains(slot));
  if (slot / bits >= words_.size()) words_.resize(slot / bits + 1);
  words_[slot / bits] |= uint64_t{1} << slot % bits;
  ++count_;
}

void FreeSlots::take(SlotId slot) {
  WP_ASSERT(contains(slot));
  words_[slot / bits] &= ~(uint64_t{1} << slot % bits);
  --count_;
}

// Goes from run to run: a word's zeros, and its ones, are counted in one step each.
SlotId FreeSlots::roomiest() const {
  WP_ASSERT(count_ > 0);
  SlotId best = no_slot;
  uint32_t best_length = 0;
  uint32_t length = 0;  // of the run that ends where we are
  for (uint32_t number = 0; number < words_.size(); ++number) {
    for (uint32_t bit = 0; bit < bits;) {
      const uint64_t rest = words_[number] >> bit;
      if (const auto free = static_cast<uint32_t>(std::countr_one(rest)); free > 0) {
        length += free;
        bit += free;
        if (length <= best_length) continue;
        best_length = length;
        best = number * bits + bit - length;
        continue;
      }
      length = 0;
      bit += rest == 0 ? bits - bit : static_cast<uint32_t>(std::countr_zero(rest));
    }
  }
  return best;
}

SlotId FreeSlots::last() const {
  WP_ASSERT(count_ > 0);
  size_t number = words_.size() - 1;
  while (words_[number] == 0) --number;
  return static_cast<SlotId>(number * bits + bits - 1 -
                             static_cast<uint32_t>(std::countl_zero(words_[number])));
}

}  // namespace weightpager::window
