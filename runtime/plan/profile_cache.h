// Where a machine's profile is kept between runs.
//
// The file is the user's own and small; anything else of that name is not read. What cannot be read
// or is no profile of this machine is one line on stderr, and is measured again.
#pragma once

#include <string>

#include "pager/base/result.h"
#include "runtime/plan/profile.h"

namespace weightpager::plan {

/// primitives-HASH.json in weightpager's part of the user's cache directory (XDG_CACHE_HOME, or
/// ~/.cache); "" for a user without one.
std::string profile_cache_path(const std::string& machine);

/// Empty if there is none, or none that can be used. `path` may be "".
Profile read_profile_cache(const std::string& path, const std::string& machine);

/// Replaces the file as a whole; makes its directory.
Status write_profile_cache(const std::string& path, const Profile& profile);

}  // namespace weightpager::plan
