// `weightpager metrics`: a live pager's counters for Prometheus and similar programs.
#pragma once

#include <string>
#include <vector>

#include "tools/cli/cli.h"

namespace weightpager::tools {

int metrics_command(const std::vector<std::string>& words);
Command metrics_description();

}  // namespace weightpager::tools
