// Finding the engine's executable, and whether the interposer can get into it.
#pragma once

#include <string>

#include "pager/base/result.h"

namespace weightpager::tools {

/// The executable that execvp(3) would start for `name`. Error::error_number is ENOENT if there is
/// none, EACCES if there is one that cannot be executed.
Result<std::string> find_engine(const std::string& name);

/// Refuses what ignores LD_PRELOAD: statically linked and 32-bit programs, and those that run with
/// more rights than their user. Scripts and files that cannot be read pass.
Status check_preloadable(const std::string& path);

/// The interposer library that belongs to this weightpager: of the build tree, or installed.
Result<std::string> find_interposer();

}  // namespace weightpager::tools
