// The directory for the sockets of a user's pagers: servers and clients both find it here.
//
// It is $XDG_RUNTIME_DIR/weightpager, if XDG_RUNTIME_DIR is the user's own and nobody else can
// enter it; for root /run/weightpager; failing both /tmp/weightpager-UID. The last one is checked,
// because anybody may have made something of that name.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "pager/base/result.h"

namespace weightpager::control {

/// This user's runtime directory. It is made if it is missing; other users cannot enter it.
Result<std::string> runtime_directory();

/// How the names of control sockets end, after the process's number.
inline constexpr std::string_view socket_ending = ".sock";
/// Before it listens, a socket has this after its name, so that no client looks for it.
inline constexpr std::string_view unheard_ending = "~";

/// Where this process's control socket lies.
Result<std::string> own_socket_path();

/// All runtime directories of a user, whichever environment they were made in.
std::vector<std::string> runtime_directories(uid_t user);

}  // namespace weightpager::control
