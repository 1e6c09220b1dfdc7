// `weightpager hist`: how long touches and reads of a live pager took.
#pragma once

#include <string>
#include <vector>

#include "tools/cli/cli.h"

namespace weightpager::tools {

int hist_command(const std::vector<std::string>& words);
Command hist_description();

}  // namespace weightpager::tools
