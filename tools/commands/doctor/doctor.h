// `weightpager doctor`: checks this machine for a run, and prints a fix for each problem.
#pragma once

#include <string>
#include <vector>

#include "tools/cli/cli.h"

namespace weightpager::tools {

/// `words` are the arguments after the command's name. Returns the exit status: 0 if nothing
/// failed, 1 if a row failed, 2 for misuse.
int doctor_command(const std::vector<std::string>& words);
Command doctor_description();

}  // namespace weightpager::tools
