// Where the server of a name listens: one place that `weightpager serve` and `weightpager run
// --attach` both look.
#pragma once

#include <string>

#include "pager/base/result.h"

namespace weightpager::tools {

/// $XDG_RUNTIME_DIR/weightpager/NAME.socket; for root /run/weightpager/…, failing both
/// /tmp/weightpager-UID/…. Makes the directory, which only this user can enter. Fails if the name
/// is none for a file (letters, digits, '.', '_' and '-'), or others can enter the directory.
Result<std::string> server_socket(const std::string& name);

}  // namespace weightpager::tools
