// Reads a user's file as a whole: a plan, a profile, names.
//
// A path from a command line may be anything: a directory (for which the standard library's streams
// throw an exception), a pipe that nobody writes to, a device that never ends, a file of a
// terabyte. Each of these is an error here that names the file.
#pragma once

#include <cstdint>
#include <string>

#include "pager/base/result.h"

namespace weightpager {

/// Reads at most `bytes_max` bytes of a regular file, or of a pipe that has a writer (a shell's
/// `<(…)`); a pipe without a writer is empty. `what` names the kind of file in the error that it is
/// too large: "a plan".
Result<std::string> read_whole_file(const std::string& path, uint64_t bytes_max,
                                    const std::string& what);

/// The same for a JSON text that will become an object in memory. The object takes many times as
/// much memory; fails if there is no room for that.
Result<std::string> read_whole_json(const std::string& path, uint64_t bytes_max,
                                    const std::string& what);

/// Reads from the descriptor's position to the end. `path` is only for errors.
Result<std::string> read_to_end(int fd, const std::string& path, uint64_t bytes_max,
                                const std::string& what);

}  // namespace weightpager
