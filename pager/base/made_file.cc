#include "pager/base/made_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "pager/base/units.h"

namespace weightpager {
namespace {

tl::unexpected<Error> cannot_write(const std::string& path, uint64_t size_bytes, int error_number) {
  if (error_number == ENOSPC || error_number == EDQUOT || error_number == EFBIG)
    return fail(fmt::format("{}: no room for the file's {} bytes ({}): {}", path, size_bytes,
                            format_size(size_bytes), std::strerror(error_number)),
                "free some space, write to another disk, or make a smaller model", error_number);
  return fail(fmt::format("{}: cannot write the file: {}", path, std::strerror(error_number)),
              error_number == ENOENT ? "make its directory first" : "", error_number);
}

/// Returns 0 or the errno. If the filesystem cannot reserve space, only sets the file's length.
int reserve(int fd, uint64_t size_bytes) {
  const auto size = static_cast<off_t>(size_bytes);
  if (fallocate(fd, 0, 0, size) == 0) return 0;
  if (errno != EOPNOTSUPP) return errno;
  return ftruncate(fd, size) == 0 ? 0 : errno;
}

}  // namespace

Result<MadeFile> MadeFile::create(const std::string& path, uint64_t size_bytes) {
  MadeFile file;
  file.path_ = path;
  file.size_bytes_ = size_bytes;
  file.fd_ = OwnedFd(
      ::open(file.temporary_path().c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!file.fd_.is_open()) return cannot_write(path, size_bytes, errno);
  if (const int error_number = reserve(file.fd_.get(), size_bytes); error_number != 0)
    return cannot_write(path, size_bytes, error_number);
  return file;
}

MadeFile::~MadeFile() {
  if (fd_.is_open()) std::remove(temporary_path().c_str());
}

Status MadeFile::write(uint64_t offset_bytes, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written =
        pwrite(fd_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset_bytes));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return cannot_write(path_, size_bytes_, errno);
    bytes.remove_prefix(static_cast<size_t>(written));
    offset_bytes += static_cast<uint64_t>(written);
  }
  return {};
}

Status MadeFile::commit() {
  if (fdatasync(fd_.get()) != 0 || std::rename(temporary_path().c_str(), path_.c_str()) != 0)
    return cannot_write(path_, size_bytes_, errno);
  fd_ = OwnedFd();
  return {};
}

}  // namespace weightpager
