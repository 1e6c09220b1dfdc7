// `weightpager stat`: what a pager does, a row a second.
#pragma once

namespace weightpager::tools {

int stat_command(int argc, char** argv);

}  // namespace weightpager::tools
