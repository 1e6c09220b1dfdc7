// `weightpager model`: shows models and makes synthetic ones.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/cli/cli.h"

namespace weightpager::tools {

/// Returns the exit status: 0 done, 1 the operation failed, 2 misuse.
int model_command(const std::vector<std::string>& words);
Command model_description();

/// The subcommands; `words` are the arguments after their names.
int model_show_command(const std::vector<std::string>& words);
Command model_show_description();
int model_make_command(const std::vector<std::string>& words);
Command model_make_description();
int model_pack_command(const std::vector<std::string>& words);
Command model_pack_description();

/// `model show` of a network's description, and `model make --net`; exit statuses as above.
int show_network(const std::string& path, bool as_json);
int make_network_files(const Arguments& arguments, uint64_t seed);

}  // namespace weightpager::tools
