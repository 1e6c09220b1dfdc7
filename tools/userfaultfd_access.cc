#include "tools/userfaultfd_access.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <pwd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "pager/fault/userfaultfd_abi.h"

namespace weightpager::tools {
namespace {

constexpr const char* device_path = "/dev/userfaultfd";

int open_device() {
  const int device = ::open(device_path, O_RDWR | O_CLOEXEC);
  if (device < 0) return -1;
  const int fd = ioctl(device, USERFAULTFD_IOC_NEW, O_CLOEXEC);
  const int error = errno;
  ::close(device);
  errno = error;
  return fd;
}

int open_system_call(int flags) {
  return static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC | flags));
}

/// Takes over what an opening call returned: its errno, or 0 with the features noted.
int try_door(int fd, uint64_t& features) {
  if (fd < 0) return errno;
  uffdio_api question{UFFD_API, 0, 0};
  if (ioctl(fd, UFFDIO_API, &question) == 0) features = question.features;
  ::close(fd);
  return 0;
}

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

/// The device is the way past every other obstacle, where the kernel has it.
std::string device_cure(const UserfaultfdAccess& access) {
  if (access.device_error == EACCES) {
    return fmt::format("sudo setfacl -m u:{}:rw {} (package acl; lasts until the next boot)",
                       access.user, device_path);
  }
  if (access.has_seccomp_filter) {
    return fmt::format("start the container with --device {}", device_path);
  }
  return "";
}

std::string cure_of_refusal(const UserfaultfdAccess& access) {
  if (access.has_seccomp_filter) {
    return device_cure(access) +
           ", or allow the userfaultfd system call in the seccomp filter (a container's: "
           "--security-opt seccomp=PROFILE.json)";
  }
  if (access.user_mode_error == ENOSYS) {
    return "boot a kernel with CONFIG_USERFAULTFD, such as Debian's or Ubuntu's (a sandbox like "
           "gVisor has none)";
  }
  if (access.user_mode_error == EMFILE || access.user_mode_error == ENFILE) return "ulimit -n 4096";
  // Before 5.11 a kernel knows no difference between faults, and a sysctl decides alone.
  if (access.user_mode_error == EINVAL) return "sudo sysctl vm.unprivileged_userfaultfd=1";
  const std::string device = device_cure(access);
  return device.empty() ? "a security module refuses it: see `sudo dmesg`" : device;
}

}  // namespace

UserfaultfdAccess probe_userfaultfd() {
  UserfaultfdAccess access;
  access.device_error = try_door(open_device(), access.features);
  access.system_call_error = try_door(open_system_call(0), access.features);
  access.user_mode_error = try_door(open_system_call(UFFD_USER_MODE_ONLY), access.features);
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
                          std::strerror(access.user_mode_error),
                          access.has_seccomp_filter ? " (a seccomp filter is in force)" : ""),
              userfaultfd_cure(access), access.user_mode_error);
}

}  // namespace weightpager::tools
