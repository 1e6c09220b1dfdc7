// `weightpager trace`: files with the touches of engines, recorded or synthetic.
#pragma once

#include <string>
#include <vector>

#include "tools/cli/cli.h"

namespace weightpager::tools {

/// `words` are the arguments after the command's name. Returns the exit status: 0 done, 1 the
/// operation failed, 2 misuse.
int trace_command(const std::vector<std::string>& words);
Command trace_description();

}  // namespace weightpager::tools
