// Finds the engine's executable, and checks that the interposer can be loaded into it.
#pragma once

#include <string>
#include <vector>

#include "pager/base/program_file.h"
#include "pager/base/result.h"

namespace weightpager::tools {

/// The executable that execvp(3) would start for `name`. Error::error_number is ENOENT if there is
/// none, EACCES if there is one that cannot be executed.
Result<std::string> find_engine(const std::string& name);

/// Refuses programs into which the interposer does not get: those of another kind of machine or C
/// library, those that get more rights than this user has, and statically linked programs that are
/// given models (`has_models`) and no other program. Any other statically linked program may be a
/// launcher, which hands the environment on: it only gets a notice. Of a script the programs that
/// read it count. Files that cannot be read pass. `arguments`: the engine's, from its name on.
Status check_preloadable(const std::string& path, const std::vector<std::string>& arguments,
                         bool has_models);

/// Why no library of LD_PRELOAD's gets into a program, and what helps.
struct Unloadable {
  std::string what;
  std::string cure;
};
/// Requires that none does.
Unloadable unloadable(const ProgramFile& program);

/// The interposer library that belongs to this weightpager, in the build tree or installed.
Result<std::string> find_interposer();

}  // namespace weightpager::tools
