// `weightpager ps`: which processes have a live pager.
#pragma once

namespace weightpager::tools {

int ps_command(int argc, char** argv);

}  // namespace weightpager::tools
