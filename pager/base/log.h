// Messages to the user while the engine runs: one line each, on stderr, never on stdout.
#pragma once

#include <string_view>

namespace weightpager {

/// No notices from now on; errors are still printed.
void set_quiet(bool is_quiet);

/// Prints a fallback or limitation and what to do about it, at most 20 lines per process. Allocates
/// nothing; may be called by any thread.
void notice(std::string_view text);

/// Prints a failure that affects the engine.
void report_error(std::string_view text);

}  // namespace weightpager
