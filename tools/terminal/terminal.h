// What may be written to standard output, when it is a terminal.
#pragma once

namespace weightpager::tools {

/// One whose cursor can be moved: not a pipe, not TERM=dumb.
bool is_screen();

/// A screen whose user has not refused colours (NO_COLOR).
bool wants_colour();

}  // namespace weightpager::tools
