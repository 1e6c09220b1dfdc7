// What is kept for a user between runs: small files of his own in his cache directory.
#pragma once

#include <cstdint>
#include <string>

#include "pager/base/result.h"

namespace weightpager {

/// weightpager's part of the user's cache directory (XDG_CACHE_HOME, or ~/.cache), which may not be
/// there yet; "" for a user without one.
std::string user_cache_directory();

/// Reads all of a file that nobody vouches for: no link, nothing that blocks, this user's own, of
/// at most so many bytes.
Result<std::string> read_own_file(const std::string& path, uint64_t bytes_max);

}  // namespace weightpager
