// Simulates inferences without a disk or a device: drives a Schedule with a fake clock.
//
// One disk, one copy engine and one compute engine each work off the schedule's actions one after
// the other, in the order in which they were started, and each action takes as long as the costs
// say. So a pipeline can be judged on a disk or a device that is not at hand, and the schedule
// itself can be checked against the equations of timeline.h: both must give the same times to the
// nanosecond.
//
// Cost: O(1) per event.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/pipeline/schedule.h"
#include "runtime/pipeline/timeline.h"

namespace weightpager::pipeline {

/// The number of inferences, and the time between them.
struct Arrivals {
  uint32_t inferences = 1;
  /// Time without a request before each inference, also before the first. Reads across inferences
  /// go on meanwhile. With 0 the first inference starts with nothing in memory: in `preload` its
  /// delay contains the loading.
  uint64_t idle_ns = 0;
};

/// `costs`: the costs of the units that `schedule` was made of, by index. Returns one timeline per
/// inference, all on one clock. In `preload` and across inferences, a read may lie before its
/// inference's start.
std::vector<Timeline> simulate(Schedule schedule, std::span<const UnitCosts> costs,
                               const Arrivals& arrivals);

}  // namespace weightpager::pipeline
