// Inferences without a disk or a device: drives a Schedule with a fake clock.
//
// One disk, one copy engine and one compute engine each work off what the schedule gives them, in
// that order, one after the other, for as long as the costs say. So a pipeline can be judged on a
// disk or a device that is not at hand, and the schedule itself can be checked against the
// equations of timeline.h: both must give the same times to the nanosecond.
//
// Cost: O(1) per event.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/pipeline/schedule.h"
#include "runtime/pipeline/timeline.h"

namespace weightpager::pipeline {

/// When inferences come.
struct Arrivals {
  uint32_t inferences = 1;
  /// Before each one, also the first, nothing is asked for; reads across inferences go on. With 0
  /// the first starts with nothing in memory: of `preload` it contains the loading.
  uint64_t idle_ns = 0;
};

/// `costs`: by index, of the units that `schedule` was made of. Returns one timeline per inference,
/// all on one clock. In `preload` and across inferences, a read may lie before its inference's
/// start.
std::vector<Timeline> simulate(Schedule schedule, std::span<const UnitCosts> costs,
                               const Arrivals& arrivals);

}  // namespace weightpager::pipeline
