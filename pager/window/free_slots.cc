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
SlotId FreeSlots::fitting(uint32_t length) const {
  WP_ASSERT(count_ > 0);
  SlotId best = no_slot;
  uint32_t best_length = 0;
  uint32_t run = 0;  // the length of the run that ends here
  const auto end_run = [&](SlotId end) {
    const bool is_better =
        best_length < length ? run > best_length : run >= length && run < best_length;
    if (is_better) {
      best = end - run;
      best_length = run;
    }
    run = 0;
  };
  for (uint32_t number = 0; number < words_.size() && best_length != length; ++number) {
    for (uint32_t bit = 0; bit < bits;) {
      const uint64_t rest = words_[number] >> bit;
      if (const auto free = static_cast<uint32_t>(std::countr_one(rest)); free > 0) {
        run += free;
        bit += free;
        continue;
      }
      end_run(number * bits + bit);
      bit += rest == 0 ? bits - bit : static_cast<uint32_t>(std::countr_zero(rest));
    }
  }
  end_run(static_cast<SlotId>(words_.size()) * bits);
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
