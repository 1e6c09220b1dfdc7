// A small engine, started by the scripts beside it under `weightpager run`: maps a file as engines
// do, makes one of the calls that they make, and checks that it sees what plain mmap shows.
//
//     preload_engine CALL FILE        exit 0: all as with mmap
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

constexpr size_t page_bytes = 4096;

struct File {
  int fd = -1;
  size_t size_bytes = 0;
};

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "engine: %s (errno %d: %s)\n", what.c_str(), errno, std::strerror(errno));
  std::exit(1);
}

void expect(bool is_fine, const char* what) {
  if (!is_fine) fail(what);
}

File open_file(const char* path) {
  File file;
  file.fd = open(path, O_RDONLY);
  struct stat facts;
  expect(file.fd >= 0 && fstat(file.fd, &facts) == 0, "open");
  file.size_bytes = static_cast<size_t>(facts.st_size);
  return file;
}

const unsigned char* map(const File& file, int flags = MAP_SHARED) {
  void* address = mmap(nullptr, file.size_bytes, PROT_READ, flags, file.fd, 0);
  expect(address != MAP_FAILED, "mmap");
  return static_cast<const unsigned char*>(address);
}

// Compares every page's first bytes with what read(2) says.
void check_bytes(const File& file, const unsigned char* bytes, size_t from, size_t to) {
  unsigned char expected[64];
  for (size_t at = from; at + sizeof expected <= to; at += page_bytes) {
    expect(pread(file.fd, expected, sizeof expected, static_cast<off_t>(at)) == sizeof expected,
           "pread");
    if (std::memcmp(bytes + at, expected, sizeof expected) != 0)
      fail("wrong bytes at " + std::to_string(at));
  }
}

size_t resident_kib() {
  FILE* status = std::fopen("/proc/self/status", "r");
  char line[256];
  size_t kib = 0;
  while (std::fgets(line, sizeof line, status) != nullptr) std::sscanf(line, "VmRSS: %zu", &kib);
  std::fclose(status);
  return kib;
}

int plain(const File& file) {
  const unsigned char* bytes = map(file);
  for (int pass = 0; pass < 3; ++pass) check_bytes(file, bytes, 0, file.size_bytes);
  expect(munmap(const_cast<unsigned char*>(bytes), file.size_bytes) == 0, "munmap");
  return 0;
}

// MAP_POPULATE, WILLNEED on everything and mlock must not pull the model in.
int greedy(const File& file) {
  const unsigned char* bytes = map(file, MAP_SHARED | MAP_POPULATE);
  auto* address = const_cast<unsigned char*>(bytes);
  expect(posix_fadvise(file.fd, 0, 0, POSIX_FADV_WILLNEED) == 0, "posix_fadvise");
  expect(posix_madvise(address, file.size_bytes, POSIX_MADV_WILLNEED) == 0, "posix_madvise");
  expect(madvise(address, file.size_bytes, MADV_WILLNEED) == 0, "madvise");
  expect(mlock(address, file.size_bytes) == 0, "mlock");
  expect(munlock(address, file.size_bytes) == 0, "munlock");
  expect(mprotect(address, file.size_bytes, PROT_READ) == 0, "mprotect");
  expect(msync(address, file.size_bytes, MS_ASYNC) == 0, "msync");
  if (resident_kib() > file.size_bytes / 1024 / 2) fail("the model was pulled in");
  check_bytes(file, bytes, 0, file.size_bytes);
  return 0;
}

int parts(const File& file) {
  const unsigned char* bytes = map(file);
  auto* address = const_cast<unsigned char*>(bytes);
  check_bytes(file, bytes, 0, 4 << 20);
  expect(munmap(address, 5 * page_bytes) == 0, "munmap of the head");
  expect(munmap(address + (6 << 20) + page_bytes, 3 << 20) == 0, "munmap in the middle");
  check_bytes(file, bytes, 5 * page_bytes, (6 << 20) + page_bytes);
  check_bytes(file, bytes, (9 << 20) + page_bytes, file.size_bytes);
  // What is unmapped may be mapped anew by anybody.
  void* other = mmap(address + (7 << 20), 1 << 20, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  expect(other == address + (7 << 20), "mmap into the hole");
  std::memset(other, 7, 1 << 20);
  check_bytes(file, bytes, (9 << 20) + page_bytes, file.size_bytes);
  expect(static_cast<unsigned char*>(other)[100] == 7, "the hole's new owner lost bytes");
  return 0;
}

int child_process(const File& file) {
  const unsigned char* bytes = map(file);
  const pid_t pid = fork();
  if (pid == 0) {
    check_bytes(file, bytes, 0, file.size_bytes);
    // And a model that the child maps itself.
    const unsigned char* own = map(file);
    check_bytes(file, own, 0, file.size_bytes);
    _exit(0);
  }
  check_bytes(file, bytes, 0, file.size_bytes);
  int status = 0;
  expect(waitpid(pid, &status, 0) == pid && status == 0, "the child saw other bytes");
  return 0;
}

// Daemons close every descriptor that they do not know.
int close_all(const File& file) {
  const unsigned char* bytes = map(file);
  std::vector<unsigned char> expected(file.size_bytes);
  expect(
      pread(file.fd, expected.data(), expected.size(), 0) == static_cast<ssize_t>(expected.size()),
      "pread");
  for (int fd = 3; fd < 1000; ++fd) close(fd);
  for (int pass = 0; pass < 2; ++pass) {
    expect(std::memcmp(bytes, expected.data(), expected.size()) == 0, "wrong bytes");
  }
  return 0;
}

int remap(const File& file) {
  const unsigned char* bytes = map(file);
  auto* address = const_cast<unsigned char*>(bytes);
  // Growing would leave faults behind: an error, and the old mapping stays as it was.
  void* grown = mremap(address, file.size_bytes, file.size_bytes * 2, MREMAP_MAYMOVE);
  expect(grown == MAP_FAILED && errno == ENOMEM, "mremap that grows");
  check_bytes(file, bytes, 0, file.size_bytes);
  void* shrunk = mremap(address, file.size_bytes, 4 << 20, 0);
  expect(shrunk == address, "mremap that shrinks");
  check_bytes(file, bytes, 0, 4 << 20);
  return 0;
}

int residency(const File& file) {
  const unsigned char* bytes = map(file);
  auto* address = const_cast<unsigned char*>(bytes);
  std::vector<unsigned char> pages((file.size_bytes + page_bytes - 1) / page_bytes);
  check_bytes(file, bytes, 0, 8);
  volatile unsigned char byte = bytes[10 << 20];
  (void)byte;
  expect(mincore(address, file.size_bytes, pages.data()) == 0, "mincore");
  expect(pages[(10 << 20) / page_bytes] == 1, "mincore of what was just read");
  size_t resident = 0;
  for (unsigned char page : pages) resident += page;
  expect(resident < pages.size(), "mincore says that everything is resident");
  expect(madvise(address, file.size_bytes, MADV_DONTNEED) == 0, "MADV_DONTNEED");
  check_bytes(file, bytes, 0, file.size_bytes);
  return 0;
}

int write_to_it(const File& file) {
  const unsigned char* bytes = map(file, MAP_PRIVATE);
  void* writable = mmap(nullptr, file.size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, file.fd, 0);
  expect(writable != MAP_FAILED, "a writable private mapping");
  static_cast<unsigned char*>(writable)[5 << 20] = 0x77;
  check_bytes(file, bytes, 0, file.size_bytes);
  expect(static_cast<unsigned char*>(writable)[5 << 20] == 0x77, "a write was lost");
  expect(mprotect(const_cast<unsigned char*>(bytes), page_bytes, PROT_READ | PROT_WRITE) == -1 &&
             errno == EACCES,
         "mprotect to writable");
  return 0;
}

int pass_to_the_kernel(const File& file) {
  const unsigned char* bytes = map(file);
  int pipes[2];
  expect(pipe(pipes) == 0, "pipe");
  std::vector<unsigned char> got(page_bytes);
  for (size_t at = 0; at + page_bytes <= file.size_bytes; at += 1 << 20) {
    expect(write(pipes[1], bytes + at, page_bytes) == static_cast<ssize_t>(page_bytes), "write(2)");
    expect(read(pipes[0], got.data(), page_bytes) == static_cast<ssize_t>(page_bytes), "read(2)");
    expect(std::memcmp(got.data(), bytes + at, page_bytes) == 0, "wrong bytes by write(2)");
  }
  return 0;
}

// What a pipe was given to show stays what it was, whatever the pager moves in the meantime.
int splice_to_a_pipe(const File& file) {
  const unsigned char* bytes = map(file);
  int pipes[2];
  expect(pipe(pipes) == 0, "pipe");
  check_bytes(file, bytes, 0, file.size_bytes);
  iovec part{const_cast<unsigned char*>(bytes + (20 << 20)), 4 * page_bytes};
  expect(vmsplice(pipes[1], &part, 1, 0) == static_cast<ssize_t>(part.iov_len), "vmsplice");
  for (int pass = 0; pass < 2; ++pass) check_bytes(file, bytes, 0, file.size_bytes);
  std::vector<unsigned char> expected(part.iov_len);
  std::vector<unsigned char> got(part.iov_len);
  expect(pread(file.fd, expected.data(), expected.size(), 20 << 20) ==
             static_cast<ssize_t>(expected.size()),
         "pread");
  expect(read(pipes[0], got.data(), got.size()) == static_cast<ssize_t>(got.size()), "read");
  expect(got == expected, "the pipe shows other bytes");
  return 0;
}

// Prints the bytes' sum at the very end, from a destructor: the pager must still serve.
struct AtExit {
  const unsigned char* bytes = nullptr;
  size_t size_bytes = 0;
  ~AtExit() {
    unsigned long sum = 0;
    for (size_t at = 0; at < size_bytes; at += page_bytes) sum += bytes[at];
    std::printf("%lu\n", sum);
  }
} at_exit;

int until_the_end(const File& file) {
  at_exit.bytes = map(file);
  at_exit.size_bytes = file.size_bytes;
  return 0;
}

int is_killed(const File& file) {
  check_bytes(file, map(file), 0, file.size_bytes);
  raise(SIGKILL);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::string call = argv[1];
  const File file = open_file(argv[2]);
  if (call == "plain") return plain(file);
  if (call == "greedy") return greedy(file);
  if (call == "parts") return parts(file);
  if (call == "child") return child_process(file);
  if (call == "close-all") return close_all(file);
  if (call == "remap") return remap(file);
  if (call == "residency") return residency(file);
  if (call == "write") return write_to_it(file);
  if (call == "kernel") return pass_to_the_kernel(file);
  if (call == "splice") return splice_to_a_pipe(file);
  if (call == "until-the-end") return until_the_end(file);
  if (call == "killed") return is_killed(file);
  return 2;
}
