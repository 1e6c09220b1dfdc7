// What the pager's thread has to do beside reading, and how long that takes.
//
// A call that shows or takes out pages costs something by itself (a system call, and processors
// that have to be interrupted), and something for each page. A chunk of 2 MiB is one huge page;
// smaller ones are small pages. `weightpager bench disk` measures all of it. Defaults: what it
// found on a virtual machine of two processors; a fault's is that of an engine that keeps its
// processor busy until then, so that the pager sleeps on another one.
#pragma once

#include <cstdint>

#include "pager/base/units.h"

namespace weightpager::simulate {

struct CallCosts {
  uint64_t call_ns = 0;
  uint64_t page_ns = 0;
};

struct Handling {
  /// A thread that goes to sleep at a touch, a pager that wakes, and back: half of it before the
  /// pager knows (nothing, if it is awake), half after the chunk is there.
  uint64_t fault_ns = 70'000;
  /// Engine and pager take turns on one processor: who waited goes on when the pager sleeps.
  bool shares_processor = false;
  /// To hand one read over to the kernel and take its answer.
  uint64_t request_ns = 14'000;
  /// To wake because reads are done, look at all that may have happened, and sleep again, beside
  /// what is counted here by itself. (The 70 us above have it in them.)
  uint64_t turn_ns = 0;
  CallCosts show{9'000, 10};
  CallCosts take_out{5'000, 10};
  uint64_t show_huge_ns = 1'400;
  uint64_t take_out_huge_ns = 1'200;

  /// From the chunk's being there to its toucher's running on.
  uint64_t to_go_on() const { return fault_ns - fault_ns / 2; }
  uint64_t to_show(uint64_t chunk_bytes, uint32_t chunks) const {
    return cost(show, show_huge_ns, chunk_bytes, chunks);
  }
  uint64_t to_take_out(uint64_t chunk_bytes, uint32_t chunks) const {
    return cost(take_out, take_out_huge_ns, chunk_bytes, chunks);
  }

 private:
  static uint64_t cost(const CallCosts& small, uint64_t huge_ns, uint64_t chunk_bytes,
                       uint32_t chunks) {
    if (chunk_bytes == huge_page_bytes) return huge_ns * chunks;
    return small.call_ns + small.page_ns * (chunk_bytes / os_page_bytes) * chunks;
  }
};

/// For tests, and for who wants to know what the disk alone would take.
inline constexpr Handling no_handling{0, false, 0, 0, {}, {}, 0, 0};

}  // namespace weightpager::simulate
