// Small files in the user's cache directory, which are kept between runs.
#pragma once

#include <cstdint>
#include <string>

#include "pager/base/result.h"

namespace weightpager {

/// weightpager's directory in the user's cache directory (XDG_CACHE_HOME, or ~/.cache). It may not
/// exist yet. "" if the user has no cache directory.
std::string user_cache_directory();

/// Reads the whole of an untrusted file. Fails if it is a link, can block, is not this user's own,
/// or has more than `bytes_max` bytes.
Result<std::string> read_own_file(const std::string& path, uint64_t bytes_max);

}  // namespace weightpager
