// What the pager's thread has to do beside reading, and how long that takes.
//
// A call that shows or takes out pages costs something by itself (a system call, and processors
// that have to be interrupted), and something for each page. A chunk of 2 MiB is one huge page;
// smaller ones are small pages. `weightpager bench disk` measures all of it. The defaults were
// measured on a virtual machine of two processors. `fault_ns` is that of an engine that keeps its
// processor busy until the fault, so that the pager sleeps on the other one.
#pragma once

#include <cstdint>

#include "pager/base/units.h"

namespace weightpager::simulate {

struct CallCosts {
  uint64_t call_ns = 0;
  uint64_t page_ns = 0;
};

struct Handling {
  /// A thread goes to sleep at a touch, the pager wakes, and later the thread wakes again. Half of
  /// this time passes before the pager knows of the touch (no time, if it is awake), half after the
  /// chunk is there.
  uint64_t fault_ns = 70'000;
  /// Engine and pager take turns on one processor: a thread that waited goes on when the pager
  /// sleeps.
  bool shares_processor = false;
  /// Handing one read over to the kernel, and taking its answer.
  uint64_t request_ns = 14'000;
  /// Waking because reads are done, looking at all that may have happened, and sleeping again,
  /// without the work that other fields count. (The 70 us above include it.)
  uint64_t turn_ns = 0;
  CallCosts show{9'000, 10};
  CallCosts take_out{5'000, 10};
  uint64_t show_huge_ns = 1'400;
  uint64_t take_out_huge_ns = 1'200;

  /// From when the chunk is there until the thread that touched it runs on.
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

/// For tests, and to find out how long the disk alone would take.
inline constexpr Handling no_handling{0, false, 0, 0, {}, {}, 0, 0};

}  // namespace weightpager::simulate
