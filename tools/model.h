// `weightpager model`: looks into models and makes synthetic ones.
#pragma once

#include <string>
#include <vector>

namespace weightpager::tools {

/// argv[0] is "model", the rest are its arguments. Returns the exit status: 0 done, 1 the operation
/// failed, 2 misuse.
int model_command(int argc, char** argv);

/// The subcommands; without "model" and their own names.
int model_show_command(const std::vector<std::string>& arguments);
int model_make_command(const std::vector<std::string>& arguments);

}  // namespace weightpager::tools
