// SIGINT, SIGTERM and SIGHUP as a file descriptor, for servers that end in an orderly way.
#pragma once

#include "pager/base/owned_fd.h"
#include "pager/base/result.h"

namespace weightpager::tools {

/// Readable when one of them has come; blocked in the calling thread, and in those it starts, from
/// now on.
Result<OwnedFd> ending_signals();

}  // namespace weightpager::tools
