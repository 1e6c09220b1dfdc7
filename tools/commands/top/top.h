// `weightpager top`: a live pager on a whole screen.
#pragma once

#include <string>
#include <vector>

#include "tools/cli/cli.h"

namespace weightpager::tools {

int top_command(const std::vector<std::string>& words);
Command top_description();

}  // namespace weightpager::tools
