// Finds out whether this user may have a userfaultfd, by which door, and how to open a shut door.
//
// Each of the doors (pager/fault/userfaultfd_doors.h) is tried, and its errno is kept. If only the
// last one is open, a system call on weights that are not resident fails. Cost: a few system calls.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "pager/base/result.h"
#include "pager/fault/userfaultfd_doors.h"

namespace weightpager::tools {

struct UserfaultfdAccess {
  /// For each door 0 if it is open, otherwise its errno.
  std::array<int, fault::doors.size()> errors = {};
  /// The kernel's UFFD_FEATURE_ bits; 0 if no door is open.
  uint64_t features = 0;
  bool has_seccomp_filter = false;
  /// The name of the user who was refused, for the command that lets that user in.
  std::string user;

  int& error_of(fault::Door door) { return errors[static_cast<size_t>(door)]; }
  int error_of(fault::Door door) const { return errors[static_cast<size_t>(door)]; }
  /// The door that the pager will use; nullopt if all are shut.
  std::optional<fault::Door> door() const;
  bool is_available() const { return door().has_value(); }
  bool serves_all_faults() const { return is_available() && fault::serves_all_faults(*door()); }
};

UserfaultfdAccess probe_userfaultfd();

/// The command or advice that removes what prevents serving all faults; "" if nothing does.
std::string userfaultfd_cure(const UserfaultfdAccess& access);

/// Fails, with the cure as hint, if no door is open.
Status check_userfaultfd(const UserfaultfdAccess& access);

}  // namespace weightpager::tools
