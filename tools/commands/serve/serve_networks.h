// `weightpager serve NET.cfg… --budget SIZE`: runs several networks side by side in one memory
// budget.
#pragma once

#include <string>
#include <vector>

#include "tools/cli/cli.h"

namespace weightpager::tools {

/// Whether the words after `serve` name networks, rather than models for engines.
bool names_networks(const std::vector<std::string>& words);

int serve_networks_command(const std::vector<std::string>& words);
Command serve_networks_description();

}  // namespace weightpager::tools
