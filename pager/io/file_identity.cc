#include "pager/io/file_identity.h"

#include <fcntl.h>
#include <time.h>

#include <cstdlib>

#include "pager/base/owned_fd.h"
#include "pager/base/system_calls.h"

namespace weightpager::io {
namespace {

constexpr int64_t second_ns = 1'000'000'000;
// The kernel's slowest clock ticks every 10 ms.
constexpr int64_t settled_after_ns = 20'000'000;
// For times in whole seconds. (FAT's times are multiples of two seconds.)
constexpr int64_t settled_after_whole_second_ns = 3 * second_ns;

int64_t to_ns(const timespec& time) { return time.tv_sec * second_ns + time.tv_nsec; }

}  // namespace

FileIdentity identity_of(const struct stat& facts, int64_t now_ns) {
  const int64_t changed_ns = to_ns(facts.st_ctim);
  const int64_t settled_after =
      changed_ns % second_ns == 0 ? settled_after_whole_second_ns : settled_after_ns;
  return {.device = facts.st_dev,
          .inode = facts.st_ino,
          .size_bytes = static_cast<uint64_t>(facts.st_size),
          .modified_ns = to_ns(facts.st_mtim),
          .changed_ns = changed_ns,
          .names = facts.st_nlink,
          .is_settled = std::abs(now_ns - changed_ns) > settled_after};
}

std::optional<FileIdentity> identity_of(int fd) {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  struct stat facts;
  if (kernel::fstat(fd, &facts) != 0) return std::nullopt;
  return identity_of(facts, to_ns(now));
}

std::optional<FileIdentity> settled_identity_of(int fd) {
  const auto identity = identity_of(fd);
  const bool waits = identity && !identity->is_settled && identity->changed_ns % second_ns != 0;
  if (!waits) return identity;
  const timespec tick{.tv_sec = 0, .tv_nsec = settled_after_ns + 1'000'000};
  nanosleep(&tick, nullptr);
  return identity_of(fd);
}

std::optional<FileIdentity> settled_identity_of(const std::string& path) {
  const OwnedFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  return fd.is_open() ? settled_identity_of(fd.get()) : std::nullopt;
}

}  // namespace weightpager::io
