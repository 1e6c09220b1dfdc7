// How to use a memory budget: how much of it for rings, and which units to pin with the rest.
//
// Problem. On a cyclic scan no ring saves a read; only what stays in memory does. A larger ring
// hides reads behind kernels until nothing waits any more; on a slow disk there are more reads than
// kernels can hide, and then each further byte is worth more pinned (at 1 GB/s and 120 MiB YOLOv4
// takes 266 ms with a ring only, 191 ms with 49 MiB of ring and 71 MiB pinned).
//
// Idea. Which units: those whose reads come faster than kernels can hide. Going through the units
// in order, kernels earn read time at some rate; a unit whose read is not earned yet is pinned. So
// what is streamed is spread as the kernels are, not as the bytes are. How fast to earn and how
// large a ring: tried out, some ten thousand combinations on the equations. The ring without pins
// is one of them, so a plan is never slower than that.
//
// Cost: O(N) per combination; 25 ms for the 162 layers of YOLOv4, 50 ms for 266 tiles of them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pager/base/result.h"
#include "pager/base/time_limit.h"
#include "runtime/pipeline/schedule.h"
#include "runtime/pipeline/timeline.h"

namespace weightpager::pipeline {

struct WindowPlan {
  Rings rings;
  std::vector<bool> is_pinned;  // by unit
  uint64_t pinned_bytes = 0;
  /// From the second inference on.
  uint64_t delay_ns = 0;
  uint64_t bytes_per_pass = 0;

  uint64_t window_bytes() const { return rings.bytes() + pinned_bytes; }
};

/// How finely rings and rates of earning are tried. As they are: for one plan that is used for
/// long. Coarser ones are for many plans that are compared.
struct PlanTrials {
  /// Each ring tried is this share of the one before.
  double ring_ratio = 0.96;
  int rates_per_octave = 16;
  /// Slower plans are of no interest: what cannot be as fast is not tried.
  uint64_t delay_ns_max = UINT64_MAX;
  /// Once it is over, the best plan so far is the answer, or else the first one that is found. Not
  /// owned; nullptr: no limit.
  const TimeLimit* time = nullptr;

  bool is_over() const { return time != nullptr && time->is_over(); }
};

/// The same, coarser where a network has thousands of layers: then a plan takes no longer than some
/// times that of a network of a thousand.
PlanTrials for_layers(const PlanTrials& trials, size_t layers);

/// The least delay in a window of at most `budget_bytes`; of equal delays the one that reads least,
/// and of these the smallest window. For `asynchronous` and `two_stage`. Fails if not even the
/// smallest rings fit, and says what would; or if there is none as fast as `trials` ask for.
Result<WindowPlan> plan_window(Pipeline pipeline, std::span<const UnitCosts> costs,
                               uint64_t budget_bytes, const PlanTrials& trials = {},
                               Inferences inferences = Inferences::one_by_one);

/// The units that `plan` makes a schedule of.
std::vector<WorkUnit> work_units(std::span<const UnitCosts> costs,
                                 const std::vector<bool>& is_pinned);

}  // namespace weightpager::pipeline
