// Divides a memory budget: how much of it is for rings, and which units are pinned with the rest.
//
// Problem. On a cyclic scan no ring saves a read; only weights that stay in memory do. A larger
// ring hides reads behind kernels until no kernel waits any more. On a slow disk there are more
// reads than kernels can hide, and then each further byte is worth more if it is pinned. At 1 GB/s
// and 120 MiB YOLOv4 takes 266 ms with a ring only, and 191 ms with 49 MiB of ring and 71 MiB
// pinned.
//
// Idea. Pin the units whose reads come faster than kernels can hide them. The planner goes through
// the units in order: each kernel earns read time at some rate, and a unit whose read is not earned
// yet is pinned. So the streamed units are spread like the kernels' time, not like the bytes. The
// planner tries some ten thousand combinations of rate and ring size on the equations. The ring
// without pins is one of them, so a plan is never slower than that.
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
  /// The delay from the second inference on.
  uint64_t delay_ns = 0;
  uint64_t bytes_per_pass = 0;

  uint64_t window_bytes() const { return rings.bytes() + pinned_bytes; }
};

/// How finely ring sizes and rates of earning are tried. The defaults are for one plan that is used
/// for long. Coarser trials are for comparing many plans.
struct PlanTrials {
  /// Each ring tried is this share of the one before.
  double ring_ratio = 0.96;
  int rates_per_octave = 16;
  /// Slower plans are not wanted: combinations that cannot be as fast are not tried.
  uint64_t delay_ns_max = UINT64_MAX;
  /// Once it is over, the best plan so far is the answer, or else the first one that is found. Not
  /// owned; nullptr: no limit.
  const TimeLimit* time = nullptr;

  bool is_over() const { return time != nullptr && time->is_over(); }
};

/// Coarser trials for networks of more than a thousand layers, so that a plan takes no longer than
/// a few times as long as for a thousand layers. For smaller networks: `trials` as they are.
PlanTrials for_layers(const PlanTrials& trials, size_t layers);

/// The plan with the least delay in a window of at most `budget_bytes`. Of plans with equal delays
/// it is the one that reads least, and of these the one with the smallest window. For
/// `asynchronous` and `two_stage`. Fails if not even the smallest rings fit; the error names the
/// window that is needed. Fails also if no plan is as fast as `trials` ask for.
Result<WindowPlan> plan_window(Pipeline pipeline, std::span<const UnitCosts> costs,
                               uint64_t budget_bytes, const PlanTrials& trials = {},
                               Inferences inferences = Inferences::one_by_one);

/// The units for a schedule, pinned as a plan says.
std::vector<WorkUnit> work_units(std::span<const UnitCosts> costs,
                                 const std::vector<bool>& is_pinned);

}  // namespace weightpager::pipeline
