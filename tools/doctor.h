// `weightpager doctor`: what this machine gives a run, what it withholds, and the command that
// mends it.
#pragma once

namespace weightpager::tools {

/// argv[0] is "doctor", the rest are its arguments. Returns the exit status: 0 nothing failed, 1
/// something did, 2 misuse.
int doctor_command(int argc, char** argv);

}  // namespace weightpager::tools
