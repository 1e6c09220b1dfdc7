// Which process a number means, and whether it runs.
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace weightpager::tools {

/// In which a process's number means something; 0 where /proc does not tell.
uint64_t pid_namespace();

/// When the process started. One that had its number before has another start. 0: none runs; one
/// that has ended and waits for its parent to take note does not.
uint64_t start_ticks(pid_t process_id);

}  // namespace weightpager::tools
