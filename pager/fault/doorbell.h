// How an engine thread wakes the pager without a file descriptor, which the engine could close, and
// without a lock, which it could hold: it touches a page that is not there.
//
// The touch is a fault like any other. The pager lets the page come (zeros; the kernel's shared
// zero page, no memory), which sends the toucher on its way. Taking the same page away at once
// would make the toucher, which looks again when it wakes, fault anew and anew; so every ring
// touches the next of many pages, and the pager takes away the page half of them further on, which
// is long out of use and next needed when as many rings have come. Cost: a fault, about 70 µs.
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

  /// Wakes the pager; returns when it has heard. Whatever the caller wrote before is visible to the
  /// pager then. Any thread but the pager's; fewer than pages / 2 at once.
  void ring();

  bool owns(uintptr_t address) const {
    return address - reinterpret_cast<uintptr_t>(base_) < length_bytes;
  }
  /// The pager's answer to a fault at an address that it owns.
  void answer(const Userfaultfd& uffd, uintptr_t address);

 private:
  static constexpr uint32_t pages = 2048;
  static constexpr uint64_t length_bytes = pages * os_page_bytes;

  std::byte* base_ = nullptr;
  std::atomic<uint32_t> rings_{0};
};

}  // namespace weightpager::fault
