// `--resolution`: pictures of another size than a .cfg names (runtime/network/resolution.h).
#pragma once

#include <optional>
#include <vector>

#include "pager/base/result.h"
#include "runtime/network/resolution.h"
#include "tools/cli/cli.h"

namespace weightpager::tools {

/// The option, for a command's table.
Option resolution_option();
/// The same for a command that takes several sizes.
Option resolutions_option();

/// "416", for height and width, or "416x320", width first as networks write it. Nothing without the
/// option: the .cfg's own size.
Result<std::optional<network::Resolution>> parse_resolution(const Arguments& arguments);

/// Such sizes with commas between them. Empty without the option.
Result<std::vector<network::Resolution>> parse_resolutions(const Arguments& arguments);

}  // namespace weightpager::tools
