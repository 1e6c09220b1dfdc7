// Where a machine's profile is kept between runs.
//
// The file must be the user's own and small; other files of that name are not read. A file that
// cannot be read, or is no profile of this machine, costs one line on stderr, and its profile is
// measured again.
#pragma once

#include <string>

#include "pager/base/result.h"
#include "runtime/plan/profile.h"

namespace weightpager::plan {

/// primitives-HASH.json in weightpager's part of the user's cache directory (XDG_CACHE_HOME, or
/// ~/.cache); "" for a user without one.
std::string profile_cache_path(const std::string& machine);

/// Empty if there is no cache, or none that can be used. `path` may be "".
Profile read_profile_cache(const std::string& path, const std::string& machine);

/// Replaces the file as a whole, and makes its directory.
Status write_profile_cache(const std::string& path, const Profile& profile);

}  // namespace weightpager::plan
