// `weightpager trace`: what engines touch, recorded or made up, in files.
#pragma once

#include <string>
#include <vector>

#include "tools/cli/cli.h"

namespace weightpager::tools {

/// `words` are what follows its name. Returns the exit status: 0 done, 1 the operation failed, 2
/// misuse.
int trace_command(const std::vector<std::string>& words);
Command trace_description();

}  // namespace weightpager::tools
