// Assertions that stay on in release builds: a pager that has lost track of a chunk would serve
// wrong bytes, so it stops the process instead. Assertions check the program, never the kernel's
// answers or a file's contents: errors of those are a `Result` (result.h).
#pragma once

namespace weightpager {

/// Prints the failed condition with write(2) and aborts. Allocates nothing: safe on the fault path.
[[noreturn]] void assertion_failed(const char* condition, const char* file, int line) noexcept;

}  // namespace weightpager

#define WP_ASSERT(condition)          \
  (__builtin_expect(!!(condition), 1) \
       ? static_cast<void>(0)         \
       : ::weightpager::assertion_failed(#condition, __FILE__, __LINE__))
