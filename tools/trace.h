// `weightpager trace`: what engines touch, recorded or made up, in files.
#pragma once

namespace weightpager::tools {

/// argv[0] is "trace". Returns the exit status: 0 done, 1 the operation failed, 2 misuse.
int trace_command(int argc, char** argv);

}  // namespace weightpager::tools
