// A file of a user's, read whole: a plan, a profile, names.
//
// A path from a command line may be anything: a directory (whose bytes the standard library's
// streams throw an exception for), a pipe that nobody writes to, a device that never ends, a file
// of a terabyte. Each is an error here that names it.
#pragma once

#include <cstdint>
#include <string>

#include "pager/base/result.h"

namespace weightpager {

/// At most `bytes_max`. Regular files, and pipes that have a writer (a shell's `<(…)`); a pipe
/// without one is empty. `what` names it where it is too large: "a plan".
Result<std::string> read_whole_file(const std::string& path, uint64_t bytes_max,
                                    const std::string& what);

/// The same of a JSON text that is going to be an object in memory, which takes many times as much:
/// fails where there is no room for that.
Result<std::string> read_whole_json(const std::string& path, uint64_t bytes_max,
                                    const std::string& what);

/// From the descriptor's position to its end. `path` is for errors alone.
Result<std::string> read_to_end(int fd, const std::string& path, uint64_t bytes_max,
                                const std::string& what);

}  // namespace weightpager
