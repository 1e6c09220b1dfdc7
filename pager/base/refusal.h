// System calls that are taken from a process while it runs.
//
// A program may lock itself down when it has loaded its model: a seccomp filter that holds for all
// threads holds for the pager's, too. Where another call does as well, that one is used from then
// on. Where none does, the process ends with a line that says so: a thread that waits for a chunk
// which nobody can bring would wait for ever.
#pragma once

#include <cerrno>

namespace weightpager {

/// What filters answer, and a kernel does not to calls that it has answered before.
inline bool is_refusal(int error_number) {
  return error_number == EPERM || error_number == EACCES || error_number == ENOSYS;
}

/// Says which call is refused, and how, and aborts. Allocates nothing.
[[noreturn]] void end_refused(const char* call, int error_number) noexcept;

}  // namespace weightpager
