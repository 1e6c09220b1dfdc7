// `weightpager map`: which of a model's bytes are in memory now.
#pragma once

#include <string>
#include <vector>

#include "tools/cli/cli.h"

namespace weightpager::tools {

int map_command(const std::vector<std::string>& words);
Command map_description();

}  // namespace weightpager::tools
