// The version of this weightpager, the commit that it was built from, and the libraries in it.
#pragma once

#include <string>

namespace weightpager::tools {

/// "0.1.0"
const char* version_number();
/// The commit, with "-dirty" if the tree had changes; "unknown" outside a git checkout.
const char* version_commit();
/// The whole text for `--version`.
std::string version_text();

}  // namespace weightpager::tools
