// `weightpager ctl`: changes a live pager.
#pragma once

namespace weightpager::tools {

int ctl_command(int argc, char** argv);

}  // namespace weightpager::tools
