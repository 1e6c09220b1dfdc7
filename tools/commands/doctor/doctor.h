// `weightpager doctor`: what this machine gives a run, what it withholds, and the command that
// mends it.
#pragma once

#include <string>
#include <vector>

#include "tools/cli/cli.h"

namespace weightpager::tools {

/// `words` are what follows its name, as in every command. Returns the exit status: 0 nothing
/// failed, 1 something did, 2 misuse.
int doctor_command(const std::vector<std::string>& words);
Command doctor_description();

}  // namespace weightpager::tools
