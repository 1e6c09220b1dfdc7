// An engine whose process is no place for strangers: it exports functions of libuv's names, as node
// does, closes all descriptors that it does not know, uses their numbers for files of its own, and
// forks. It goes over its weights until SIGUSR1 comes.
//
//     control_engine FILE        exit 0: every byte and every descriptor was as it should be
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

// Whoever calls one of these has taken ours for libuv's.
#define BOGUS(name)                                                 \
  extern "C" __attribute__((visibility("default"))) int name() {    \
    std::fprintf(stderr, "engine: its own " #name " was called\n"); \
    std::abort();                                                   \
  }
BOGUS(uv_loop_init)
BOGUS(uv_loop_close)
BOGUS(uv_run)
BOGUS(uv_async_init)
BOGUS(uv_async_send)
BOGUS(uv_pipe_init)
BOGUS(uv_pipe_bind)
BOGUS(uv_listen)
BOGUS(uv_accept)
BOGUS(uv_read_start)
BOGUS(uv_try_write)
BOGUS(uv_write)
BOGUS(uv_close)
BOGUS(uv_timer_init)
BOGUS(uv_timer_start)
BOGUS(uv_fileno)
BOGUS(uv_library_shutdown)

namespace {

constexpr int own_descriptors = 64;
std::atomic<bool> is_over{false};

[[noreturn]] void fail(const char* what) {
  std::perror(what);
  std::exit(1);
}

/// From 3 on they are the file's, as they were opened here.
void check_descriptors(const struct stat& expected) {
  for (int fd = 3; fd < own_descriptors; ++fd) {
    struct stat facts;
    const bool is_same = fstat(fd, &facts) == 0 && facts.st_ino == expected.st_ino;
    if (!is_same) fail("engine: somebody closed a descriptor");
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  std::signal(SIGUSR1, [](int) { is_over = true; });
  const int file = open(argv[1], O_RDONLY);
  struct stat facts;
  if (file < 0 || fstat(file, &facts) != 0) fail("engine: open");
  const auto size = static_cast<size_t>(facts.st_size);
  auto* const weights =
      static_cast<unsigned char*>(mmap(nullptr, size, PROT_READ, MAP_SHARED, file, 0));
  if (weights == MAP_FAILED) fail("engine: mmap");
  // While libraries may still be loading in another thread.
  for (int i = 0; i < 20; ++i) {
    const pid_t child = fork();
    if (child == 0) _exit(0);
    int status = 0;
    if (waitpid(child, &status, 0) != child || status != 0) fail("engine: a child ended badly");
  }
  syscall(SYS_close_range, 3, UINT_MAX, 0);
  for (int fd = 3; fd < own_descriptors; ++fd) {
    if (open(argv[1], O_RDONLY) != fd) fail("engine: open");
  }
  unsigned char expected[4096];
  for (uint64_t pass = 0; !is_over; ++pass) {
    for (size_t at = 0; at + sizeof expected <= size; at += 256 << 10) {
      if (pread(3, expected, sizeof expected, static_cast<off_t>(at)) !=
              static_cast<ssize_t>(sizeof expected) ||
          std::memcmp(weights + at, expected, sizeof expected) != 0) {
        fail("engine: wrong bytes");
      }
    }
    check_descriptors(facts);
    const pid_t child = fork();
    if (child == 0) {
      check_descriptors(facts);
      _exit(0);
    }
    int status = 0;
    if (waitpid(child, &status, 0) != child || status != 0) fail("engine: a child ended badly");
  }
  return 0;
}
