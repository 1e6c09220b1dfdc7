// SIGINT, SIGTERM and SIGHUP as a file descriptor, so that servers can end in an orderly way.
#pragma once

#include "pager/base/owned_fd.h"
#include "pager/base/result.h"

namespace weightpager::tools {

/// The descriptor is readable when one of the signals has come. From now on the signals are blocked
/// in the calling thread and in threads that it starts.
Result<OwnedFd> ending_signals();

}  // namespace weightpager::tools
