// `weightpager bench`: measures a user's own network on a user's own machine.
#pragma once

namespace weightpager::tools {

int bench_command(int argc, char** argv);

}  // namespace weightpager::tools
