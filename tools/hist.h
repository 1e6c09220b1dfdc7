// `weightpager hist`: how long touches and reads of a live pager took.
#pragma once

namespace weightpager::tools {

int hist_command(int argc, char** argv);

}  // namespace weightpager::tools
