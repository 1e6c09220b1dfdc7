// The path where a server of a given name listens. `weightpager serve` and `weightpager run
// --attach` both use it.
#pragma once

#include <string>

#include "pager/base/result.h"

namespace weightpager::tools {

/// NAME.socket in the user's runtime directory (pager/control/runtime_directory.h). Fails if the
/// name has other characters than letters, digits, '.', '_' and '-', or if the directory cannot be
/// made.
Result<std::string> server_socket(const std::string& name);

}  // namespace weightpager::tools
