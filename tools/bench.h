// `weightpager bench`: measures a user's own network on a user's own machine.
#pragma once

#include <string>
#include <vector>

namespace weightpager::tools {

int bench_command(int argc, char** argv);

// Its subcommands; `words` are what follows their names.
int bench_pipelines_command(const std::vector<std::string>& words);
int bench_simulate_command(const std::vector<std::string>& words);
int bench_blocks_command(const std::vector<std::string>& words);
int bench_policies_command(const std::vector<std::string>& words);
int bench_disk_command(const std::vector<std::string>& words);

}  // namespace weightpager::tools
