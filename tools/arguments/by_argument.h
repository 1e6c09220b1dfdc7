// `--by`: the way in which networks use a window.
#pragma once

#include "pager/base/result.h"
#include "tools/cli/cli.h"

namespace weightpager::tools {

/// The option, for a command's table.
Option by_option();

/// Parses "window" (false) or "blocks" (true); without the option it is a window.
Result<bool> parse_is_by_blocks(const Arguments& arguments);

}  // namespace weightpager::tools
