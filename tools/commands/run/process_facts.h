// Says which process a number means, and whether it runs.
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace weightpager::tools {

/// The namespace in which this process's numbers are valid; 0 if /proc does not tell.
uint64_t pid_namespace();

/// When the process started, in clock ticks. An earlier process with the same number has another
/// start. 0 if no such process runs; a zombie does not run.
uint64_t start_ticks(pid_t process_id);

}  // namespace weightpager::tools
