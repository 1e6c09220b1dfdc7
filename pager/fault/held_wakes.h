// Threads that are woken together.
//
// Problem. A thread that is woken runs at once, on another processor, and from then on the kernel
// interrupts that processor whenever page tables change: three times for each chunk that is shown
// and another that is hidden. With many threads at the pager, waiting for those interrupts takes
// more than half of the pager's time.
//
// Idea. While the pager answers the faults that it has read in one call, it notes whom it would
// wake, and wakes them at the end. Meanwhile most processors sleep, and are not interrupted. What
// is noted for a part of a range that is noted already needs no call of its own, so a chunk is
// woken once, however many threads wait for its pages.
//
// Cost: a thread waits until the faults of so many others are answered, at most `ranges_max`
// chunks of some µs each.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "pager/fault/userfaultfd.h"

namespace weightpager::fault {

/// From its construction to its end nobody whom `uffd` wakes goes on, except by room for others.
/// Used by the thread that answers faults; allocates nothing.
class HeldWakes {
 public:
  explicit HeldWakes(Userfaultfd& uffd) : uffd_(uffd) { uffd_.hold_wakes(this); }
  ~HeldWakes();
  HeldWakes(const HeldWakes&) = delete;
  HeldWakes& operator=(const HeldWakes&) = delete;

  /// Notes that threads in [address, address + length_bytes) are to be woken.
  void add(uintptr_t address, uint64_t length_bytes);

 private:
  static constexpr size_t ranges_max = 16;
  struct Range {
    uintptr_t begin = 0;
    uintptr_t end = 0;
  };

  void wake_all();

  Userfaultfd& uffd_;
  std::array<Range, ranges_max> ranges_;
  size_t count_ = 0;
};

}  // namespace weightpager::fault
