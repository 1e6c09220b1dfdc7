// What the user should know while the engine runs: one line each, on stderr, never on stdout.
#pragma once

#include <string_view>

namespace weightpager {

/// No notices from now on; errors are still printed.
void set_quiet(bool is_quiet);

/// A fallback or limitation and what to do about it. Prints at most 20 lines per process. Allocates
/// nothing; any thread.
void notice(std::string_view text);

/// A failure that the engine will feel.
void report_error(std::string_view text);

}  // namespace weightpager
