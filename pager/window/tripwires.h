// Chunks of which one page is missing, so that their next use is noticed.
//
// Problem. Mapped chunks are silent. To take a small chunk out of its region and to move it back
// when it is touched costs the engine three interruptions of all its processors (the kernel flushes
// what they remember of page tables for the way out, the way in and the write protection), and the
// thread that touched it waits for two of them.
//
// Idea. Each use of the chunk reads all of it, so one missing page tells as much. The page's bytes
// are kept here. Pages that are taken away together cost one flush (from Linux 6.16 on). Putting a
// page back costs none, because the kernel copies the page into a place where there was nothing.
//
// Cost: a few µs to set one or to take it back; as many pages of memory as tripwires were ever set
// at the same time.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "pager/base/owned_fd.h"
#include "pager/fault/userfaultfd.h"
#include "pager/window/region.h"

namespace weightpager::window {

/// Tripwires in regions of this process whose chunks are small and are moved in as a whole. Used by
/// the pager's thread only; only the constructor allocates.
class Tripwires {
 public:
  /// Allows up to `count_max` tripwires at once.
  explicit Tripwires(uint32_t count_max);
  ~Tripwires();
  Tripwires(const Tripwires&) = delete;
  Tripwires& operator=(const Tripwires&) = delete;

  /// Saves the first page of a chunk that is placed as a whole; the page goes with the next
  /// `hand_over`. Returns false if there is no room for one more.
  bool set(Region& region, uint32_t index);
  /// Takes away all pages that were saved since the last call. A page that the engine has locked in
  /// memory stays: its chunk is silent until it is evicted.
  void hand_over();
  /// Puts the page back, write-protected, and wakes the threads that wait for it. Unless `done`,
  /// nothing has happened.
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
  OwnedFd process_;  // this process's pidfd
  std::vector<iovec> leaving_;
};

}  // namespace weightpager::window
