// `weightpager bench`: measures a user's own network on a user's own machine.
#pragma once

#include <string>
#include <vector>

#include "tools/cli/cli.h"

namespace weightpager::tools {

int bench_command(const std::vector<std::string>& words);
Command bench_description();

// The subcommands; `words` are the arguments after their names.
int bench_pipelines_command(const std::vector<std::string>& words);
Command bench_pipelines_description();
int bench_simulate_command(const std::vector<std::string>& words);
Command bench_simulate_description();
int bench_blocks_command(const std::vector<std::string>& words);
Command bench_blocks_description();
int bench_policies_command(const std::vector<std::string>& words);
Command bench_policies_description();
int bench_disk_command(const std::vector<std::string>& words);
Command bench_disk_description();

}  // namespace weightpager::tools
