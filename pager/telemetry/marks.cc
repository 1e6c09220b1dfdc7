#include "pager/telemetry/marks.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>

#include "pager/base/owned_fd.h"

namespace weightpager::telemetry {
namespace {

// A build that starts compilers by the thousand must not fill the filesystem.
constexpr off_t file_bytes_max = 4 << 20;

// Past every library: the interposer answers to the names of some of these.
int open_file(const char* path, int flags) {
  return static_cast<int>(
      syscall(SYS_openat, AT_FDCWD, path, flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
}

char file_path[PATH_MAX] = {};

template <size_t size>
void copy_end(std::string_view text, char (&field)[size]) {
  if (text.size() >= size) text.remove_prefix(text.size() - (size - 1));
  std::memcpy(field, text.data(), text.size());
}

bool has_room(int fd) {
  struct stat facts;
  return fstat(fd, &facts) == 0 && S_ISREG(facts.st_mode) && facts.st_size < file_bytes_max;
}

}  // namespace

std::string marks_path(const std::string& directory) { return directory + "/marks"; }

void leave_marks_in(const std::string& directory) {
  const std::string path = directory.empty() ? "" : marks_path(directory);
  if (path.size() >= sizeof file_path) return;
  std::memcpy(file_path, path.c_str(), path.size() + 1);
}

void leave_mark(MarkKind kind, std::string_view subject, uint64_t amount, MarkPlace place) {
  if (file_path[0] == '\0') return;
  const int error_of_engine = errno;
  const int fd = open_file(file_path, O_WRONLY | O_APPEND);
  if (fd >= 0) {
    Mark mark;
    mark.kind = kind;
    mark.process_id = static_cast<int32_t>(syscall(SYS_getpid));
    mark.place = place;
    mark.amount = amount;
    struct stat facts;
    if (stat("/proc/self/ns/pid", &facts) == 0) mark.pid_namespace = facts.st_ino;
    copy_end(program_invocation_short_name, mark.command);
    copy_end(subject, mark.subject);
    if (has_room(fd)) (void)!syscall(SYS_write, fd, &mark, sizeof mark);
    syscall(SYS_close, fd);
  }
  errno = error_of_engine;
}

std::vector<Mark> read_marks(const std::string& directory) {
  std::vector<Mark> marks;
  const OwnedFd file(open_file(marks_path(directory).c_str(), O_RDONLY));
  if (!file.is_open()) return marks;
  Mark mark;
  for (off_t at = 0; at < file_bytes_max; at += sizeof mark) {
    if (pread(file.get(), &mark, sizeof mark, at) != sizeof mark) break;
    // Others may write there, too.
    mark.command[sizeof mark.command - 1] = mark.subject[sizeof mark.subject - 1] = '\0';
    if (mark.magic == mark_magic) marks.push_back(mark);
  }
  return marks;
}

}  // namespace weightpager::telemetry
