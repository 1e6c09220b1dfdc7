// The smallest window for a delay: the paper's minimal-delay configurations (Async-MD, 2S-MD).
//
// Problem. The paper measures the delay with every window from the largest layer to the whole model
// and takes the first one that reaches the minimum: hundreds of inferences, and with noise an
// arbitrary one of many that are nearly equal.
//
// Idea. In mirrored rings a delay never grows with a ring (timeline.h), so with measured costs the
// window is found by bisection on the equations, and a few real inferences confirm it. The host's
// and the device's ring are found separately: the smallest device ring for a host ring is a
// step function that is walked corner by corner. Tests compare it with the paper's sweep.
//
// Cost: O(N log(model / step)) for one ring, for two as much per corner of the function: 0.1 ms
// for the 162 layers of YOLOv4.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/pipeline/schedule.h"
#include "runtime/pipeline/timeline.h"

namespace weightpager::pipeline {

/// Rings are searched on this grid.
inline constexpr uint64_t ring_step_bytes = 4096;

/// The smallest rings in sum with which the delay is at most `delay_max_ns`; nothing if none are
/// large enough. Of equal sums, the one with the larger host ring. For pipelines whose delay does
/// not depend on rings: `smallest_rings`, if that delay is low enough.
std::optional<Rings> smallest_rings_for_delay(Pipeline pipeline, std::span<const UnitCosts> costs,
                                              uint64_t delay_max_ns);

/// The smallest rings with which the delay is at most (1 + `tolerance`) times the least that rings
/// of any size give. Where the disk is faster than the computation that is nearly the kernels'
/// time; where it is slower only pinning takes the delay further down (pinning.h).
Rings smallest_rings_without_stalls(Pipeline pipeline, std::span<const UnitCosts> costs,
                                    double tolerance);

}  // namespace weightpager::pipeline
