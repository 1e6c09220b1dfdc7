// Where the server of a name listens: one place that `weightpager serve` and `weightpager run
// --attach` both look.
#pragma once

#include <string>

#include "pager/base/result.h"

namespace weightpager::tools {

/// NAME.socket in the user's runtime directory (pager/control/runtime_directory.h). Fails if the
/// name is none for a file (letters, digits, '.', '_' and '-'), or the directory cannot be had.
Result<std::string> server_socket(const std::string& name);

}  // namespace weightpager::tools
