// `weightpager ps`: which processes have a live pager.
#pragma once

#include <string>
#include <vector>

#include "tools/cli/cli.h"

namespace weightpager::tools {

int ps_command(const std::vector<std::string>& words);
Command ps_description();

}  // namespace weightpager::tools
