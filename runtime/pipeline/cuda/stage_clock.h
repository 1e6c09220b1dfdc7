// When a GPU did something, on the clock of everything else.
//
// Problem. CUDA's events tell how long after each other they came, to half a microsecond, and
// nothing of CLOCK_MONOTONIC; the time at which a thread hears of one is tens of microseconds late.
// A trace shows reads beside copies and kernels, and the shortest kernels take less than that.
//
// Idea. A stage's units follow each other: each begins some time after the one before was over,
// as the events say. That chain hangs on the host's clock by two facts: nothing begins before it
// was put in line, and nothing is over after somebody has heard of it. Where the chain would break
// one of them it is moved as little as needed, so that no error adds up. No CUDA here.
#pragma once

#include <algorithm>
#include <cstdint>

#include "runtime/pipeline/timeline.h"

namespace weightpager::cuda {

class StageClock {
 public:
  /// The event that the first unit's gap is counted from came now.
  void begin(uint64_t now_ns) { last_finish_ns_ = now_ns; }

  /// A unit that began `gap_ms` after the last one was over and took `duration_ms`. It was put in
  /// line at `enqueued_ns`; that it is over was known at `seen_ns`. All in order.
  pipeline::TimeSpan place(double gap_ms, double duration_ms, uint64_t enqueued_ns,
                           uint64_t seen_ns) {
    const uint64_t duration_ns = std::min(to_ns(duration_ms), seen_ns - enqueued_ns);
    const uint64_t start_ns =
        std::clamp(last_finish_ns_ + to_ns(gap_ms), enqueued_ns, seen_ns - duration_ns);
    last_finish_ns_ = start_ns + duration_ns;
    return {start_ns, last_finish_ns_};
  }

 private:
  static uint64_t to_ns(double ms) { return static_cast<uint64_t>(std::max(ms, 0.0) * 1e6); }

  uint64_t last_finish_ns_ = 0;
};

}  // namespace weightpager::cuda
