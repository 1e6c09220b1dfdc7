// Memory of a fixed size that a pager writes and others read: a mapped file, so that it outlives
// an engine that is killed, or that may open no files any more.
#pragma once

#include <cstddef>
#include <string>

#include "pager/base/result.h"

namespace weightpager::telemetry {

/// Zeros, under the name `path`; what had that name before is gone (a process that starts another
/// program in its place keeps its id). There is room for all of it.
Result<void*> create_shared_file(const std::string& path, size_t size_bytes);

/// Fails if the file has another size. This user's is mapped, for as long as the process lives; of
/// another user's it is what it says now.
Result<const void*> open_shared_file(const std::string& path, size_t size_bytes);

}  // namespace weightpager::telemetry
