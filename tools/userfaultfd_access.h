// Whether this user may have a userfaultfd, by which door, and what opens one that is shut.
//
// There are three: the device /dev/userfaultfd (file permissions decide, and no system call filter
// looks at it), the system call for all faults (privileged users), and the system call for faults
// of user mode only (everybody, unless a seccomp filter refuses it). The first two serve every
// fault; with the third, a system call on weights that are not resident fails. Each is tried, and
// the errno kept. Cost: a few system calls.
#pragma once

#include <cstdint>
#include <string>

#include "pager/base/result.h"

namespace weightpager::tools {

struct UserfaultfdAccess {
  /// 0 where the door is open, else its errno.
  int device_error = 0;
  int system_call_error = 0;
  int user_mode_error = 0;
  /// The kernel's UFFD_FEATURE_ bits, 0 if no door is open.
  uint64_t features = 0;
  bool has_seccomp_filter = false;
  /// Who was refused, for the command that lets them in.
  std::string user;

  bool serves_all_faults() const { return device_error == 0 || system_call_error == 0; }
  bool is_available() const { return serves_all_faults() || user_mode_error == 0; }
};

UserfaultfdAccess probe_userfaultfd();

/// What is in the way of serving all faults, and what to do; "" if nothing is.
std::string userfaultfd_cure(const UserfaultfdAccess& access);

/// Fails, with the cure as hint, if no door is open.
Status check_userfaultfd(const UserfaultfdAccess& access);

}  // namespace weightpager::tools
