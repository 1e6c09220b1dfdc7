// `weightpager ctl`: changes a live pager.
#pragma once

#include <string>
#include <vector>

#include "tools/cli/cli.h"

namespace weightpager::tools {

int ctl_command(const std::vector<std::string>& words);
Command ctl_description();

}  // namespace weightpager::tools
