// A pager's counters as OpenMetrics text, which Prometheus and similar programs scrape.
//
// Names come from the table of counters (pager/telemetry), with units as OpenMetrics wants them:
// bytes and seconds at the end of the name, then "_total" for a counter that only grows. Histograms
// have a bucket for every power of two nanoseconds from a microsecond on. Times of day are left
// out, because a pager's clock begins when its machine started.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pager/control/memory_blocks.h"
#include "pager/telemetry/telemetry.h"

namespace weightpager::control {

inline constexpr char open_metrics_type[] =
    "application/openmetrics-text; version=1.0.0; charset=utf-8";

struct LayerStall {
  std::string model;
  uint64_t layer = 0;
  std::string name;
  uint64_t stall_ns = 0;
};

/// `blocks`: of the engine's own memory, which are counted by size and by what they hold. Ends with
/// "# EOF" and a line break.
std::string open_metrics(const telemetry::Telemetry& telemetry,
                         const std::vector<LayerStall>& layers,
                         const std::vector<MemoryBlock>& blocks = {});

}  // namespace weightpager::control
