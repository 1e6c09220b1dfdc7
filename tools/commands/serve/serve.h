// `weightpager serve`: one window for several engines on the same models.
//
// The server reads each byte once and keeps it in memory once. Engines that were started with
// `weightpager run --attach` map the same memory. The server ends on SIGINT or SIGTERM. Engines
// that are attached then get SIGBUS at their next touch, as if the disk had gone.
#pragma once

#include <string>
#include <vector>

#include "tools/cli/cli.h"

namespace weightpager::tools {

int serve_command(const std::vector<std::string>& words);
Command serve_description();

}  // namespace weightpager::tools
