// What standard output can show: a movable cursor, colours.
#pragma once

namespace weightpager::tools {

/// Whether standard output is a terminal whose cursor can be moved: not a pipe, not TERM=dumb.
bool is_screen();

/// Whether standard output is a screen and the user has not refused colours (NO_COLOR).
bool wants_colour();

}  // namespace weightpager::tools
