// Chunks of which one page is missing, so that their next use is noticed.
//
// Problem. Mapped chunks are silent. To take a small chunk out of its region and to move it back
// when it is touched costs the engine three interruptions of all its processors (the kernel flushes
// what they remember of page tables for the way out, the way in and the write protection), and
// whoever touched it waits for two of them.
//
// Idea. Whoever uses the chunk reads all of it, so one page that is gone tells as much. Its bytes
// are kept here. Taking pages away is one flush for as many as go together (from Linux 6.16 on);
// putting one back is none, since the kernel copies a page into a place where there was nothing.
//
// Cost: a few µs to set one or to take it back; a page of memory for each one of those that have
// ever been set at the same time.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "pager/base/owned_fd.h"
#include "pager/fault/userfaultfd.h"
#include "pager/window/region.h"

namespace weightpager::window {

/// Of regions of this process whose chunks are small and moved there whole. Used by the pager's
/// thread only; only the constructor allocates.
class Tripwires {
 public:
  /// Up to so many at once.
  explicit Tripwires(uint32_t count_max);
  ~Tripwires();
  Tripwires(const Tripwires&) = delete;
  Tripwires& operator=(const Tripwires&) = delete;

  /// Keeps the first page of a chunk that is placed as a whole; it goes with the next `hand_over`.
  /// False: there is no room for one more.
  bool set(Region& region, uint32_t index);
  /// Takes all pages away that were kept since the last time. One that the engine has locked in
  /// memory stays: its chunk is silent until it is evicted.
  void hand_over();
  /// Puts the page back, write-protected, and wakes who waits for it. Unless `done`, nothing has
  /// happened.
  fault::Outcome take_back(Region& region, uint32_t index);

  static bool is_set(const Region& region, uint32_t index) {
    return region.notes(index).tripwire != Region::Notes::no_tripwire;
  }
  /// Whether the address is in the page that a tripwire took away.
  static bool is_tripped_by(const Region& region, uint32_t index, uintptr_t address) {
    return is_set(region, index) &&
           address - reinterpret_cast<uintptr_t>(region.chunk_address(index)) < os_page_bytes;
  }

 private:
  std::byte* saved(uint32_t number) const { return pages_ + uint64_t{number} * os_page_bytes; }

  std::byte* pages_ = nullptr;
  uint64_t pages_bytes_ = 0;
  std::vector<uint32_t> free_;
  OwnedFd process_;  // this one's pidfd
  std::vector<iovec> leaving_;
};

}  // namespace weightpager::window
