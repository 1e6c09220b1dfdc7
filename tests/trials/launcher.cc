// Takes something away from a program, as containers and cautious administrators do, then starts
// it.
//
//     trials_launcher [--no-userfaultfd] [--no-io-uring] [--no-io-uring-enter] [--no-huge-pages]
//                     [--user N] -- PROGRAM …
//
// The first three are a seccomp filter that answers EPERM, as container engines' default filters
// do. It refuses the way through /dev/userfaultfd, too: the ioctl that makes a descriptor there.
#include <grp.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

constexpr unsigned new_userfaultfd_ioctl = 0xAA00;

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "launcher: %s: %s\n", what, std::strerror(errno));
  std::exit(98);
}

using Filter = std::vector<sock_filter>;

void load(Filter& filter, size_t offset_bytes) {
  filter.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<unsigned>(offset_bytes)));
}

/// Runs the next instruction only if what was loaded is `value`.
void only_if(Filter& filter, unsigned value) {
  filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1));
}

void answer(Filter& filter, unsigned verdict) {
  filter.push_back(BPF_STMT(BPF_RET | BPF_K, verdict));
}

void refuse_call(Filter& filter, unsigned number) {
  only_if(filter, number);
  answer(filter, SECCOMP_RET_ERRNO | EPERM);
}

void refuse_userfaultfd(Filter& filter) {
  refuse_call(filter, SYS_userfaultfd);
  // if (call == ioctl) { if (request == …) refuse; reload the call's number }
  filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 0, 4));
  load(filter, offsetof(seccomp_data, args) + sizeof(__u64));
  refuse_call(filter, new_userfaultfd_ioctl);
  load(filter, offsetof(seccomp_data, nr));
}

void install(Filter filter) {
  answer(filter, SECCOMP_RET_ALLOW);
  const sock_fprog program{static_cast<unsigned short>(filter.size()), filter.data()};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
    fail("installing a seccomp filter");
}

/// A user without rights; who has none is that already.
void become(unsigned user) {
  if (geteuid() != 0) return;
  if (setgroups(0, nullptr) != 0 || setgid(user) != 0 || setuid(user) != 0)
    fail("becoming another user");
}

}  // namespace

int main(int argc, char** argv) {
  Filter filter;
  load(filter, offsetof(seccomp_data, nr));
  const size_t empty = filter.size();
  int next = 1;
  for (; next < argc && std::strcmp(argv[next], "--") != 0; ++next) {
    const std::string option = argv[next];
    if (option == "--no-userfaultfd") {
      refuse_userfaultfd(filter);
    } else if (option == "--no-io-uring") {
      for (const unsigned call : {SYS_io_uring_setup, SYS_io_uring_enter, SYS_io_uring_register})
        refuse_call(filter, call);
    } else if (option == "--no-io-uring-enter") {
      refuse_call(filter, SYS_io_uring_enter);
    } else if (option == "--no-huge-pages") {
      if (prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) != 0) fail("PR_SET_THP_DISABLE");
    } else if (option == "--user" && next + 1 < argc) {
      become(static_cast<unsigned>(std::stoul(argv[++next])));
    } else {
      std::fprintf(stderr, "launcher: unknown option %s\n", argv[next]);
      return 98;
    }
  }
  if (next + 1 >= argc) return 98;
  if (filter.size() > empty) install(filter);
  execvp(argv[next + 1], argv + next + 1);
  fail(argv[next + 1]);
}
