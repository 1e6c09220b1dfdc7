// refuse_system_calls NAME… -- COMMAND…: runs COMMAND as a container with a strict seccomp filter
// would: what is named fails with EPERM, for it and all its children.
//
//   userfaultfd         the system call
//   userfaultfd_device  the way to a descriptor through /dev/userfaultfd
//   io_uring            the setup of a ring
//
// The filter is a program for the kernel's packet filter, which sees a call's number and arguments.
// x86-64 only, as weightpager is.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <string_view>
#include <vector>

#include "pager/fault/userfaultfd_abi.h"

namespace {

constexpr int exit_unusable = 125;

constexpr sock_filter load_number = BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr));
constexpr sock_filter load_ioctl_request =
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[1]));
constexpr sock_filter refuse = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
constexpr sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);

// Skips the next `skipped` instructions unless what was loaded is `value`.
sock_filter unless_equal(unsigned value, unsigned char skipped) {
  return BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, skipped);
}

// Empty for a name that is none.
std::vector<sock_filter> refusal_of(std::string_view name) {
  if (name == "io_uring") return {load_number, unless_equal(SYS_io_uring_setup, 1), refuse};
  if (name == "userfaultfd") return {load_number, unless_equal(SYS_userfaultfd, 1), refuse};
  if (name != "userfaultfd_device") return {};
  return {load_number, unless_equal(SYS_ioctl, 3), load_ioctl_request,
          unless_equal(USERFAULTFD_IOC_NEW, 1), refuse};
}

int unusable(const char* what) {
  std::perror(what);
  return exit_unusable;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<sock_filter> program;
  int at = 1;
  for (; at < argc && std::string_view(argv[at]) != "--"; at++) {
    const auto refusal = refusal_of(argv[at]);
    errno = EINVAL;
    if (refusal.empty()) return unusable(argv[at]);
    program.insert(program.end(), refusal.begin(), refusal.end());
  }
  errno = EINVAL;
  if (at + 1 >= argc) return unusable("no command");
  program.push_back(allow);
  const sock_fprog filter = {static_cast<unsigned short>(program.size()), program.data()};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return unusable("no new privileges");
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) return unusable("seccomp");
  execvp(argv[at + 1], argv + at + 1);
  return unusable(argv[at + 1]);
}
