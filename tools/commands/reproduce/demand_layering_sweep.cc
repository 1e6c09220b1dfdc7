#include "tools/commands/reproduce/demand_layering_sweep.h"

#include "runtime/pipeline/search.h"
#include "tools/terminal/figures.h"

namespace weightpager::tools::demand_layering {

using pipeline::Rings;

Sweep sweep(const std::string& name, pipeline::Pipeline which, const Costs& costs,
            uint64_t step_bytes, uint64_t end_bytes) {
  Sweep swept = {.line = {.name = name, .points = {}}, .least_delay_ns = UINT64_MAX};
  const Rings least = pipeline::smallest_rings(which, pipeline::work_units(costs));
  for (uint64_t grown = 0; grown == 0 || least.host_bytes + grown < end_bytes;
       grown += step_bytes) {
    const Rings rings = {least.host_bytes + grown,
                         least.device_bytes == 0 ? 0 : least.device_bytes + grown};
    const uint64_t delay = pipeline::delay_ns(which, costs, rings);
    swept.line.points.emplace_back(mebibytes(rings.bytes()), milliseconds(delay));
    if (delay >= swept.least_delay_ns) continue;
    swept.least_delay_ns = delay;
    swept.window_bytes = rings.bytes();
  }
  return swept;
}

}  // namespace weightpager::tools::demand_layering
