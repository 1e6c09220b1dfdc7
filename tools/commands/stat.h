// `weightpager stat`: shows what a pager does, one row each second.
#pragma once

#include <string>
#include <vector>

#include "tools/cli/cli.h"

namespace weightpager::tools {

int stat_command(const std::vector<std::string>& words);
Command stat_description();

}  // namespace weightpager::tools
