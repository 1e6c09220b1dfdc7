// Where sockets of a user's pagers lie: one place that those who listen and those who look both
// know.
//
// $XDG_RUNTIME_DIR/weightpager, if that directory is the user's own and nobody else can enter it;
// for root /run/weightpager; failing both /tmp/weightpager-UID, which is checked, as anybody may
// have made something of that name.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "pager/base/result.h"

namespace weightpager::control {

/// This user's, made if it is not there. Others cannot enter it.
Result<std::string> runtime_directory();

/// Where this process's control socket lies.
Result<std::string> own_socket_path();

/// All that there are of a user, wherever his environment pointed when they were made.
std::vector<std::string> runtime_directories(uid_t user);

}  // namespace weightpager::control
