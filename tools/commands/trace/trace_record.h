// `weightpager trace record`: records what a live pager does for some seconds, as lanes to look at.
#pragma once

#include <string>
#include <vector>

#include "tools/cli/cli.h"

namespace weightpager::tools {

/// `words` are the arguments after "record".
int trace_record_command(const std::vector<std::string>& words);
Command trace_record_description();

}  // namespace weightpager::tools
