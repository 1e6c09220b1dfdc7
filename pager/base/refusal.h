// Handles system calls that are taken away from a process while it runs.
//
// A program may lock itself down when it has loaded its model. A seccomp filter for all threads
// holds for the pager's thread, too. If another call can do the same, that call is used from then
// on. If none can, the process ends with a line that says so, because a thread that waits for a
// chunk would wait for ever.
#pragma once

#include <cerrno>

namespace weightpager {

/// Whether it is an error that filters return, but a kernel does not for a call that has worked
/// before.
inline bool is_refusal(int error_number) {
  return error_number == EPERM || error_number == EACCES || error_number == ENOSYS;
}

/// Prints which call is refused with which error, and aborts. Allocates nothing.
[[noreturn]] void end_refused(const char* call, int error_number) noexcept;

}  // namespace weightpager
