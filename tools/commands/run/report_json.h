// `run --json FILE`, `serve --json FILE`: the report of a run for programs.
#pragma once

#include <string>

#include "tools/commands/run/summary.h"

namespace weightpager::tools {

/// One JSON object with `schema_version`; integers for bytes and nanoseconds, the unit in the key.
std::string report_json(const RunReport& report);

}  // namespace weightpager::tools
