// Where sockets of a user's pagers lie: one place that those who listen and those who look both
// know.
//
// $XDG_RUNTIME_DIR/weightpager, if that directory is the user's own and nobody else can enter it;
// for root /run/weightpager; failing both /tmp/weightpager-UID, which is checked, as anybody may
// have made something of that name.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "pager/base/result.h"

namespace weightpager::control {

/// This user's, made if it is not there. Others cannot enter it.
Result<std::string> runtime_directory();

/// How the names of control sockets end, after the process's number.
inline constexpr std::string_view socket_ending = ".sock";
/// A socket has a name before it listens: one that ends in this, too, and that no client looks for.
inline constexpr std::string_view unheard_ending = "~";

/// Where this process's control socket lies.
Result<std::string> own_socket_path();

/// All that there are of a user, wherever his environment pointed when they were made.
std::vector<std::string> runtime_directories(uid_t user);

}  // namespace weightpager::control
