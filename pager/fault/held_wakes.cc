#include "pager/fault/held_wakes.h"

namespace weightpager::fault {

HeldWakes::~HeldWakes() {
  wake_all();
  uffd_.hold_wakes(nullptr);
}

void HeldWakes::add(uintptr_t address, uint64_t length_bytes) {
  const Range added{address, address + length_bytes};
  for (size_t i = 0; i < count_; ++i) {
    Range& noted = ranges_[i];
    if (noted.begin <= added.begin && added.end <= noted.end) return;
    if (noted.end != added.begin) continue;
    noted.end = added.end;
    return;
  }
  if (count_ == ranges_max) wake_all();
  ranges_[count_++] = added;
}

void HeldWakes::wake_all() {
  uffd_.hold_wakes(nullptr);
  for (size_t i = 0; i < count_; ++i) {
    uffd_.wake(reinterpret_cast<void*>(ranges_[i].begin), ranges_[i].end - ranges_[i].begin);
  }
  count_ = 0;
  uffd_.hold_wakes(this);
}

}  // namespace weightpager::fault
