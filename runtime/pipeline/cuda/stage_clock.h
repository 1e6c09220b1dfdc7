// Puts the times of a GPU's work on CLOCK_MONOTONIC, the clock of all other times.
//
// Problem. CUDA's events tell how long after each other they came, to half a microsecond, but not
// when on CLOCK_MONOTONIC. A thread hears of an event tens of microseconds late. A trace shows
// reads beside copies and kernels, and the shortest kernels take less than that.
//
// Idea. A stage's units follow each other in a chain: the events tell how long after the end of one
// unit the next begins. Two facts tie the chain to the host's clock: no unit begins before it was
// put in line, and no unit is over after a thread has heard of its end. Where the chain would break
// one of these facts, it is moved as little as needed, so errors do not add up. No CUDA here.
#pragma once

#include <algorithm>
#include <cstdint>

#include "runtime/pipeline/timeline.h"

namespace weightpager::cuda {

class StageClock {
 public:
  /// `now_ns`: the time of the event from which the first unit's gap is counted.
  void begin(uint64_t now_ns) { last_finish_ns_ = now_ns; }

  /// The times of a unit that began `gap_ms` after the last one was over and took `duration_ms`. It
  /// was put in line at `enqueued_ns`; a thread heard of its end at `seen_ns`. Units come in order.
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
