// How an engine thread wakes the pager without a file descriptor, which the engine could close, and
// without a lock, which it could hold: the thread touches a page that is not there.
//
// The touch is a fault like any other. The pager lets the page come (the kernel's shared zero page,
// which takes no memory), and the thread goes on. A thread looks at the page again when it wakes.
// If the pager took the same page away at once, the thread would fault again and again. So every
// ring touches the next of many pages, and the pager takes away the page that lies half of them
// further on: that page is long out of use, and needed again only after as many rings. Cost: a
// fault, about 70 µs.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "pager/base/result.h"
#include "pager/base/units.h"
#include "pager/fault/userfaultfd.h"

namespace weightpager::fault {

class Doorbell {
 public:
  Doorbell() = default;
  ~Doorbell();
  Doorbell(const Doorbell&) = delete;
  Doorbell& operator=(const Doorbell&) = delete;

  /// Reserves the pages and registers them. Called once, before the first ring.
  Status hang(Userfaultfd& uffd);

  /// Wakes the pager; returns when the pager has answered. Whatever the caller wrote before is
  /// visible to the pager then. For any thread but the pager's, and for fewer than pages / 2
  /// threads at once.
  void ring();

  bool owns(uintptr_t address) const {
    return address - reinterpret_cast<uintptr_t>(base_) < length_bytes;
  }
  /// The pager's answer to a fault at an address that the doorbell owns.
  void answer(const Userfaultfd& uffd, uintptr_t address);

 private:
  static constexpr uint32_t pages = 2048;
  static constexpr uint64_t length_bytes = pages * os_page_bytes;

  std::byte* base_ = nullptr;
  std::atomic<uint32_t> rings_{0};
};

}  // namespace weightpager::fault
