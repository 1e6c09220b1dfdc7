// See search.h.
#include "runtime/pipeline/search.h"

#include <algorithm>
#include <cmath>

#include "pager/base/assert.h"
#include "pager/base/units.h"

namespace weightpager::pipeline {
namespace {

using Costs = std::span<const UnitCosts>;

bool depends_on_rings(Pipeline pipeline) {
  return pipeline == Pipeline::asynchronous || pipeline == Pipeline::two_stage;
}

uint64_t on_grid(uint64_t bytes) { return round_up(bytes, ring_step_bytes); }

Rings smallest_on_grid(Pipeline pipeline, Costs costs) {
  const Rings smallest = smallest_rings(pipeline, work_units(costs));
  return {on_grid(smallest.host_bytes), on_grid(smallest.device_bytes)};
}

// No ring can use more space than all weights take.
Rings largest_on_grid(Pipeline pipeline, Costs costs) {
  const uint64_t model_bytes = on_grid(bytes_per_pass(costs));
  return {model_bytes, pipeline == Pipeline::asynchronous ? model_bytes : 0};
}

// Bisection for one ring between two sizes. The other ring is as in `rings`.
std::optional<uint64_t> smallest_ring(Pipeline pipeline, Costs costs, Rings rings,
                                      uint64_t Rings::*ring, uint64_t low_bytes,
                                      uint64_t high_bytes, uint64_t delay_max_ns) {
  const auto is_enough = [&](uint64_t bytes) {
    rings.*ring = bytes;
    return delay_ns(pipeline, costs, rings) <= delay_max_ns;
  };
  if (!is_enough(high_bytes)) return std::nullopt;
  while (low_bytes < high_bytes) {
    const uint64_t middle_bytes = round_down((low_bytes + high_bytes) / 2, ring_step_bytes);
    if (is_enough(middle_bytes)) {
      high_bytes = middle_bytes;
    } else {
      low_bytes = middle_bytes + ring_step_bytes;
    }
  }
  return high_bytes;
}

// Walks down the step function from the largest useful host ring. Each step finds the smallest
// device ring for the host ring, and then the smallest host ring for this device ring.
std::optional<Rings> smallest_pair(Costs costs, uint64_t delay_max_ns) {
  const Pipeline pipeline = Pipeline::asynchronous;
  const Rings low = smallest_on_grid(pipeline, costs);
  const Rings high = largest_on_grid(pipeline, costs);
  std::optional<Rings> best;
  Rings rings = high;
  for (;;) {
    const auto device = smallest_ring(pipeline, costs, rings, &Rings::device_bytes,
                                      low.device_bytes, high.device_bytes, delay_max_ns);
    if (!device) return best;
    rings.device_bytes = *device;
    rings.host_bytes = *smallest_ring(pipeline, costs, rings, &Rings::host_bytes, low.host_bytes,
                                      rings.host_bytes, delay_max_ns);
    if (!best || rings.bytes() < best->bytes()) best = rings;
    // All further host rings are smaller, so their device rings are larger.
    if (rings.host_bytes == low.host_bytes) return best;
    rings.host_bytes -= ring_step_bytes;
  }
}

}  // namespace

std::optional<Rings> smallest_rings_for_delay(Pipeline pipeline, Costs costs,
                                              uint64_t delay_max_ns) {
  if (pipeline == Pipeline::asynchronous) return smallest_pair(costs, delay_max_ns);
  const Rings low = smallest_on_grid(pipeline, costs);
  if (!depends_on_rings(pipeline)) {
    if (delay_ns(pipeline, costs, low) > delay_max_ns) return std::nullopt;
    return low;
  }
  const Rings high = largest_on_grid(pipeline, costs);
  const auto host = smallest_ring(pipeline, costs, low, &Rings::host_bytes, low.host_bytes,
                                  high.host_bytes, delay_max_ns);
  if (!host) return std::nullopt;
  return Rings{.host_bytes = *host};
}

Rings smallest_rings_without_stalls(Pipeline pipeline, Costs costs, double tolerance) {
  const uint64_t least_ns = delay_ns(pipeline, costs, largest_on_grid(pipeline, costs));
  const auto delay_max_ns =
      static_cast<uint64_t>(std::floor(static_cast<double>(least_ns) * (1 + tolerance)));
  const auto rings = smallest_rings_for_delay(pipeline, costs, std::max(least_ns, delay_max_ns));
  WP_ASSERT(rings);  // the largest rings reach the least delay
  return *rings;
}

}  // namespace weightpager::pipeline
