#include "pager/telemetry/shared_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "pager/base/owned_fd.h"

namespace weightpager::telemetry {
namespace {

tl::unexpected<Error> fail_file(const std::string& what, const std::string& path,
                                int error_number) {
  return fail("cannot " + what + " " + path + ": " + std::strerror(error_number),
              "the directory may be full: see `df`", error_number);
}

}  // namespace

Result<void*> create_shared_file(const std::string& path, size_t size_bytes) {
  unlink(path.c_str());
  const OwnedFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file.is_open()) return fail_file("create", path, errno);
  // Not ftruncate: on a full disk the first touch of a hole would kill the engine.
  if (const int error_number = posix_fallocate(file.get(), 0, static_cast<off_t>(size_bytes))) {
    return fail_file("make room for", path, error_number);
  }
  void* const memory = mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (memory == MAP_FAILED) return fail_file("map", path, errno);
  return memory;
}

Result<const void*> open_shared_file(const std::string& path, size_t size_bytes) {
  const OwnedFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open()) return fail_file("open", path, errno);
  struct stat facts;
  if (fstat(file.get(), &facts) != 0) return fail_file("look at", path, errno);
  if (facts.st_size != static_cast<off_t>(size_bytes)) return fail_file("use", path, EINVAL);
  const void* const memory = mmap(nullptr, size_bytes, PROT_READ, MAP_SHARED, file.get(), 0);
  if (memory == MAP_FAILED) return fail_file("map", path, errno);
  return memory;
}

}  // namespace weightpager::telemetry
