// Whether this user may have a userfaultfd, by which door, and what opens one that is shut.
//
// Each of the doors (pager/fault/userfaultfd_doors.h) is tried, and the errno kept: with the last
// one alone, a system call on weights that are not resident fails. Cost: a few system calls.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "pager/base/result.h"
#include "pager/fault/userfaultfd_doors.h"

namespace weightpager::tools {

struct UserfaultfdAccess {
  /// By door: 0 where it is open, else its errno.
  std::array<int, fault::doors.size()> errors = {};
  /// The kernel's UFFD_FEATURE_ bits, 0 if no door is open.
  uint64_t features = 0;
  bool has_seccomp_filter = false;
  /// Who was refused, for the command that lets them in.
  std::string user;

  int& error_of(fault::Door door) { return errors[static_cast<size_t>(door)]; }
  int error_of(fault::Door door) const { return errors[static_cast<size_t>(door)]; }
  /// The door that the pager will go through; none: all are shut.
  std::optional<fault::Door> door() const;
  bool is_available() const { return door().has_value(); }
  bool serves_all_faults() const { return is_available() && fault::serves_all_faults(*door()); }
};

UserfaultfdAccess probe_userfaultfd();

/// What is in the way of serving all faults, and what to do; "" if nothing is.
std::string userfaultfd_cure(const UserfaultfdAccess& access);

/// Fails, with the cure as hint, if no door is open.
Status check_userfaultfd(const UserfaultfdAccess& access);

}  // namespace weightpager::tools
