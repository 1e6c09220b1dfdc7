// Finds the smallest window for a delay: the paper's minimal-delay configurations (Async-MD,
// 2S-MD).
//
// Problem. The paper measures the delay with every window from the largest layer to the whole
// model, and takes the first window that reaches the minimum. That takes hundreds of inferences,
// and noise makes it an arbitrary one of many windows that are nearly equal.
//
// Idea. In mirrored rings a delay never grows with a ring (timeline.h), so with measured costs the
// window is found by bisection on the equations, and a few real inferences confirm it. For two
// rings, the smallest device ring for each host ring is a step function, and the search walks this
// function corner by corner. Tests compare it with the paper's sweep.
//
// Cost: O(N log(model / step)) for one ring; for two rings, as much per corner of the function: 0.1
// ms for the 162 layers of YOLOv4.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/pipeline/schedule.h"
#include "runtime/pipeline/timeline.h"

namespace weightpager::pipeline {

/// Ring sizes that are tried are multiples of this.
inline constexpr uint64_t ring_step_bytes = 4096;

/// The rings with the smallest sum with which the delay is at most `delay_max_ns`. Of equal sums,
/// the one with the larger host ring. Nothing if no rings are large enough. For pipelines whose
/// delay does not depend on rings: `smallest_rings`, if the delay is low enough.
std::optional<Rings> smallest_rings_for_delay(Pipeline pipeline, std::span<const UnitCosts> costs,
                                              uint64_t delay_max_ns);

/// The smallest rings with which the delay is at most (1 + `tolerance`) times the least delay that
/// rings of any size give. If the disk is faster than the computation, that least delay is nearly
/// the kernels' time. If the disk is slower, only pinning makes the delay smaller (pinning.h).
Rings smallest_rings_without_stalls(Pipeline pipeline, std::span<const UnitCosts> costs,
                                    double tolerance);

}  // namespace weightpager::pipeline
