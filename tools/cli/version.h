// What this weightpager is: version, the commit that it was built from, what it was built with.
#pragma once

#include <string>

namespace weightpager::tools {

/// "0.1.0"
const char* version_number();
/// The commit, with "-dirty" if the tree had changes; "unknown" outside a git checkout.
const char* version_commit();
/// All of it, for `--version`.
std::string version_text();

}  // namespace weightpager::tools
