// `weightpager infer`: runs a Darknet network on pictures, in a small part of the memory that its
// weights take.
#pragma once

#include <string>
#include <vector>

#include "tools/cli/cli.h"

namespace weightpager::tools {

int infer_command(const std::vector<std::string>& words);
Command infer_description();

}  // namespace weightpager::tools
