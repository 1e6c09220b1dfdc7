// The weightpager command: all subcommands.
#pragma once

#include <string>
#include <vector>

#include "tools/cli/cli.h"

namespace weightpager::tools {

/// The root of all tables. The manual and the shells' completion are made from it.
Command weightpager_description();

/// `words` are the arguments after `weightpager`. Returns the exit status.
int weightpager_command(const std::vector<std::string>& words);

}  // namespace weightpager::tools
