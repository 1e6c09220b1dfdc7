// `--mirror DIR`: copies of the model on other drives.
#pragma once

#include <string>
#include <vector>

#include "pager/base/result.h"
#include "pager/io/mirrors.h"
#include "tools/cli/cli.h"

namespace weightpager::tools {

Option mirror_option();

/// The directories. Fails if there are too many of them, or one is none.
Result<std::vector<std::string>> parse_mirrors(const Arguments& arguments);

/// The copies that the directories have of the files, whose names need not be those of all files of
/// their models. Reads what was not checked in an earlier run as a whole, and shows how far that
/// is. Fails if there is no file, or a directory has no copy or a wrong one.
Result<std::vector<io::CheckedCopy>> check_mirrors(const std::vector<std::string>& directories,
                                                   const std::vector<std::string>& files);

}  // namespace weightpager::tools
