#include "pager/telemetry/shared_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "pager/base/owned_fd.h"

namespace weightpager::telemetry {
namespace {

tl::unexpected<Error> fail_to(const char* verb, const std::string& path, int error_number,
                              std::string hint = {}) {
  return fail(fmt::format("cannot {} {}: {}", verb, path, std::strerror(error_number)),
              std::move(hint), error_number);
}

Result<const void*> copy_of(int fd, const std::string& path, size_t size_bytes) {
  void* const memory =
      mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return fail_to("find memory for", path, errno);
  for (size_t done = 0; done < size_bytes;) {
    const ssize_t got =
        pread(fd, static_cast<char*>(memory) + done, size_bytes - done, static_cast<off_t>(done));
    if (got <= 0) {
      const int error_number = got < 0 ? errno : EIO;
      munmap(memory, size_bytes);
      return fail_to("read", path, error_number);
    }
    done += static_cast<size_t>(got);
  }
  return memory;
}

}  // namespace

Result<void*> create_shared_file(const std::string& path, size_t size_bytes) {
  unlink(path.c_str());
  const OwnedFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file.is_open()) {
    return fail_to("create", path, errno,
                   "make the directory writable, or set WEIGHTPAGER_RUN_DIR");
  }
  // Not ftruncate: on a full disk the first touch of a hole would kill the engine.
  if (const int error_number = posix_fallocate(file.get(), 0, static_cast<off_t>(size_bytes))) {
    return fail_to("make room for", path, error_number, "its filesystem may be full: see `df`");
  }
  void* const memory = mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (memory == MAP_FAILED) return fail_to("map", path, errno);
  return memory;
}

Result<const void*> open_shared_file(const std::string& path, size_t size_bytes) {
  const OwnedFd file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file.is_open()) {
    return fail_to("open", path, errno, "the process may not be under weightpager");
  }
  struct stat facts;
  if (fstat(file.get(), &facts) != 0) return fail_to("look at", path, errno);
  if (!S_ISREG(facts.st_mode) || facts.st_size != static_cast<off_t>(size_bytes)) {
    return fail(fmt::format("{} has {} bytes, expected {}", path, facts.st_size, size_bytes),
                "it is from another version of weightpager, or was cut off: remove it");
  }
  // Another user's may be cut off under whoever has it mapped, and would kill the reader.
  if (facts.st_uid != geteuid()) return copy_of(file.get(), path, size_bytes);
  const void* const memory = mmap(nullptr, size_bytes, PROT_READ, MAP_SHARED, file.get(), 0);
  if (memory == MAP_FAILED) return fail_to("map", path, errno);
  return memory;
}

}  // namespace weightpager::telemetry
