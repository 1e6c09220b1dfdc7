// `--http PORT`: the live page of the process that runs.
#pragma once

#include <cstdint>
#include <optional>

#include "pager/base/result.h"
#include "tools/cli/cli.h"

namespace weightpager::tools {

Option http_option();

/// nullopt without the option; 0: any free port. Fails if the port is not a number or is taken.
Result<std::optional<uint16_t>> parse_http_port(const Arguments& arguments);

}  // namespace weightpager::tools
