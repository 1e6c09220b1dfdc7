// `weightpager reproduce`.
#pragma once

#include <string>
#include <vector>

#include "tools/cli/cli.h"

namespace weightpager::tools {

Command reproduce_description();
int reproduce_command(const std::vector<std::string>& words);

}  // namespace weightpager::tools
