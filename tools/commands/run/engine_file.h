// Finds the engine's executable, and checks that the interposer can be loaded into it.
#pragma once

#include <string>
#include <vector>

#include "pager/base/result.h"

namespace weightpager::tools {

/// The executable that execvp(3) would start for `name`. Error::error_number is ENOENT if there is
/// none, EACCES if there is one that cannot be executed.
Result<std::string> find_engine(const std::string& name);

/// Refuses programs that ignore LD_PRELOAD: 32-bit programs, programs that get more rights than
/// this user has, and statically linked programs that are given models (`has_models`) and no other
/// program. Any other statically linked program may be a launcher, which hands the environment on:
/// it only gets a notice. Scripts and files that cannot be read pass. `arguments`: the engine's,
/// from its name on.
Status check_preloadable(const std::string& path, const std::vector<std::string>& arguments,
                         bool has_models);

/// The interposer library that belongs to this weightpager, in the build tree or installed.
Result<std::string> find_interposer();

}  // namespace weightpager::tools
