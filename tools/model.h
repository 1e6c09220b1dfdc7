// `weightpager model`: looks into models and makes synthetic ones.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/cli.h"

namespace weightpager::tools {

/// argv[0] is "model", the rest are its arguments. Returns the exit status: 0 done, 1 the operation
/// failed, 2 misuse.
int model_command(int argc, char** argv);

/// The subcommands; without "model" and their own names.
int model_show_command(const std::vector<std::string>& arguments);
int model_make_command(const std::vector<std::string>& arguments);
int model_pack_command(const std::vector<std::string>& arguments);

/// `model show` of a network's description, and `model make --net`; exit statuses as above.
int show_network(const std::string& path, bool as_json);
int make_network_files(const Arguments& arguments, uint64_t seed);

}  // namespace weightpager::tools
