#include "tools/probes/userfaultfd_access.h"

#include <fmt/core.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "pager/base/owned_fd.h"

namespace weightpager::tools {

using fault::Door;

namespace {

bool has_seccomp_filter() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("Seccomp:", 0) == 0) return line.find_first_of("12") != std::string::npos;
  }
  return false;
}

std::string user_name() {
  const passwd* const entry = getpwuid(geteuid());
  return entry != nullptr ? entry->pw_name : std::to_string(geteuid());
}

/// If the kernel has the device, it is the way past every other obstacle.
std::string device_cure(const UserfaultfdAccess& access) {
  if (access.error_of(Door::device) == EACCES) {
    return fmt::format("sudo setfacl -m u:{}:rw {} (package acl; lasts until the next boot)",
                       access.user, fault::device_path);
  }
  if (access.has_seccomp_filter) {
    return fmt::format("start the container with --device {}", fault::device_path);
  }
  return "";
}

std::string cure_of_refusal(const UserfaultfdAccess& access) {
  if (access.has_seccomp_filter) {
    return device_cure(access) +
           ", or allow the userfaultfd system call in the seccomp filter (a container's: "
           "--security-opt seccomp=PROFILE.json)";
  }
  // The error of the least guarded door names the obstacle.
  const int error_number = access.errors.back();
  if (error_number == ENOSYS) {
    return "boot a kernel with CONFIG_USERFAULTFD, such as Debian's or Ubuntu's (a sandbox like "
           "gVisor has none)";
  }
  if (error_number == EMFILE || error_number == ENFILE) return "ulimit -n 4096";
  // A kernel before 5.11 does not tell faults apart, and a sysctl alone decides.
  if (error_number == EINVAL) return "sudo sysctl vm.unprivileged_userfaultfd=1";
  const std::string device = device_cure(access);
  return device.empty() ? "a security module refuses it: see `sudo dmesg`" : device;
}

}  // namespace

std::optional<Door> UserfaultfdAccess::door() const {
  const auto open = [this](Door door) { return error_of(door) == 0; };
  const auto* const first = std::find_if(fault::doors.begin(), fault::doors.end(), open);
  return first == fault::doors.end() ? std::nullopt : std::optional(*first);
}

UserfaultfdAccess probe_userfaultfd() {
  UserfaultfdAccess access;
  for (const Door door : fault::doors) {
    const OwnedFd fd(fault::open_door(door));
    access.error_of(door) = fd.is_open() ? 0 : errno;
  }
  if (const auto door = access.door()) access.features = fault::features_behind(*door);
  access.has_seccomp_filter = has_seccomp_filter();
  access.user = user_name();
  return access;
}

std::string userfaultfd_cure(const UserfaultfdAccess& access) {
  if (access.serves_all_faults()) return "";
  if (!access.is_available()) return cure_of_refusal(access);
  const std::string device = device_cure(access);
  return device.empty() ? "sudo sysctl vm.unprivileged_userfaultfd=1" : device;
}

Status check_userfaultfd(const UserfaultfdAccess& access) {
  if (access.is_available()) return {};
  return fail(fmt::format("userfaultfd is refused to user {}: {}{}", access.user,
                          std::strerror(access.errors.back()),
                          access.has_seccomp_filter ? " (a seccomp filter is in force)" : ""),
              userfaultfd_cure(access), access.errors.back());
}

}  // namespace weightpager::tools
