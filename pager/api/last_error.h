// What weightpager_error() says: the last error of each thread, as a text and as errno.
#pragma once

#include "pager/base/result.h"

namespace weightpager::api {

/// Of the calling thread.
void remember(const Error& error);

}  // namespace weightpager::api
