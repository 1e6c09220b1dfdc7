// The paper's search for the window with the least delay (its Section V-D): every window from the
// smallest on, in steps. runtime/pipeline/search.h finds such windows without trying all.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/pipeline/timeline.h"
#include "tools/commands/reproduce/demand_layering_published.h"
#include "tools/report/svg_chart.h"

namespace weightpager::tools::demand_layering {

struct Sweep {
  /// Milliseconds by MiB.
  ChartLine line;
  uint64_t least_delay_ns = 0;
  /// The first window with the least delay.
  uint64_t window_bytes = 0;
};

/// Each buffer grows by `step_bytes` from its smallest size to less than `end_bytes`; the smallest
/// size is always tried.
Sweep sweep(const std::string& name, pipeline::Pipeline which, const Costs& costs,
            uint64_t step_bytes, uint64_t end_bytes);

}  // namespace weightpager::tools::demand_layering
