// What a pager counts, as OpenMetrics text: what Prometheus and its like scrape.
//
// Names come from the table that the counters have everywhere, with units as OpenMetrics asks:
// bytes and seconds, at the end of the name, and "_total" behind what only grows. Histograms have a
// bucket for every power of two nanoseconds from a microsecond on. Times of day are left out: a
// pager's clock begins when its machine started.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

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

/// Ends with "# EOF" and a line break.
std::string open_metrics(const telemetry::Telemetry& telemetry,
                         const std::vector<LayerStall>& layers);

}  // namespace weightpager::control
