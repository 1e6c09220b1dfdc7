// `--http PORT`: the live page, of whatever runs.
#pragma once

#include <cstdint>
#include <optional>

#include "pager/base/result.h"
#include "tools/cli/cli.h"

namespace weightpager::tools {

Option http_option();

/// Nothing where it is not asked for; 0: any port that is free. Fails, too, if the port is taken.
Result<std::optional<uint16_t>> parse_http_port(const Arguments& arguments);

}  // namespace weightpager::tools
