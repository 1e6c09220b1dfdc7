#include "pager/fault/userfaultfd_doors.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "pager/base/owned_fd.h"
#include "pager/fault/userfaultfd_abi.h"

namespace weightpager::fault {
namespace {

constexpr int descriptor_flags = O_CLOEXEC | O_NONBLOCK;

int open_device() {
  const int device = ::open(device_path, O_RDWR | O_CLOEXEC);
  if (device < 0) return -1;
  const int fd = ioctl(device, USERFAULTFD_IOC_NEW, descriptor_flags);
  const int error_number = errno;
  ::close(device);
  errno = error_number;
  return fd;
}

int open_by_system_call(int more_flags) {
  return static_cast<int>(syscall(SYS_userfaultfd, descriptor_flags | more_flags));
}

}  // namespace

int open_door(Door door) {
  if (door == Door::device) return open_device();
  return open_by_system_call(door == Door::user_mode_only ? UFFD_USER_MODE_ONLY : 0);
}

uint64_t features_behind(Door door) {
  const OwnedFd scout(open_door(door));
  uffdio_api question{UFFD_API, 0, 0};
  const bool is_answered = scout.is_open() && ioctl(scout.get(), UFFDIO_API, &question) == 0;
  return is_answered ? question.features : 0;
}

}  // namespace weightpager::fault
