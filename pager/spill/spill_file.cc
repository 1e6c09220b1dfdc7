#include "pager/spill/spill_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "pager/base/assert.h"
#include "pager/base/units.h"

namespace weightpager::spill {
namespace {

constexpr uint64_t nameless_growth_bytes = 64 * MiB;

const char* cure_of(int error_number) {
  switch (error_number) {
    case ENOENT:
    case ENOTDIR:
      return "make the folder first, or name another one: --spill DIR";
    case EACCES:
    case EPERM:
    case EROFS:
      return "name a folder in which this user may write: --spill DIR";
    case ENOSPC:
    case EDQUOT:
      return "free some space there, or name a folder on another disk: --spill DIR";
    case EMFILE:
    case ENFILE:
      return "too many open files: raise `ulimit -n`";
    default:
      return "name a folder on another disk: --spill DIR";
  }
}

tl::unexpected<Error> cannot_spill(const std::string& folder, int error_number) {
  return fail(fmt::format("cannot make a spill file in {}: {} (errno {})", folder,
                          std::strerror(error_number), error_number),
              cure_of(error_number), error_number);
}

/// A file in `folder` that has no name, or has lost it. -1 and errno if there is none.
int open_nameless(const std::string& folder) {
  const int fd =
      ::open(folder.c_str(), O_TMPFILE | O_EXCL | O_RDWR | O_CLOEXEC | O_LARGEFILE, 0600);
  // File systems and kernels that do not know O_TMPFILE.
  const bool is_unknown = errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL;
  if (fd >= 0 || !is_unknown) return fd;
  std::string path = folder + "/.weightpager-spill-XXXXXX";
  const int named = ::mkostemp(path.data(), O_CLOEXEC | O_LARGEFILE);
  if (named >= 0) ::unlink(path.c_str());
  return named;
}

/// A file may not become longer than RLIMIT_FSIZE. The kernel would send SIGXFSZ, which ends most
/// processes.
bool is_within_limit(uint64_t size_bytes) {
  rlimit limit;
  return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
         size_bytes <= limit.rlim_cur;
}

/// Less room may do.
bool is_lack_of_room(int error_number) {
  return error_number == ENOSPC || error_number == EDQUOT || error_number == EFBIG;
}

}  // namespace

bool lies_in_memory(int fd) {
  struct statfs file_system;
  if (fstatfs(fd, &file_system) != 0) return false;
  const auto type = static_cast<uint32_t>(file_system.f_type);
  return type == TMPFS_MAGIC || type == RAMFS_MAGIC || type == HUGETLBFS_MAGIC;
}

Result<SpillFile> SpillFile::create(const std::string& folder, uint64_t place_bytes) {
  WP_ASSERT(place_bytes > 0 && place_bytes % os_page_bytes == 0);
  OwnedFd file(open_nameless(folder));
  if (!file.is_open()) return cannot_spill(folder, errno);
  if (lies_in_memory(file.get())) {
    return fail(fmt::format("cannot make a spill file in {}: its file system is in memory, which "
                            "spilling shall save",
                            folder),
                "name a folder on a disk: --spill DIR", EINVAL);
  }
  return SpillFile(std::move(file), place_bytes, nameless_growth_bytes);
}

SpillFile::SpillFile(OwnedFd file, uint64_t place_bytes, uint64_t growth_bytes)
    : file_(std::move(file)),
      is_direct_(fcntl(file_.get(), F_SETFL, O_DIRECT) == 0),
      place_bytes_(place_bytes),
      growth_bytes_(growth_bytes) {}

std::optional<uint64_t> SpillFile::take_place() {
  auto place = free_.lowest();
  if (!place) {
    if (!grow()) return std::nullopt;
    place = free_.lowest();
  }
  free_.take(*place);
  places_in_use_++;
  return *place * place_bytes_;
}

void SpillFile::give_place(uint64_t offset) {
  const uint64_t place = offset / place_bytes_;
  WP_ASSERT(offset % place_bytes_ == 0 && place < places_ && places_in_use_ > 0);
  places_in_use_--;
  if (!is_held_[place]) free_.add(place);
}

void SpillFile::hold_all() {
  for (uint64_t place = 0; place < places_; ++place) {
    if (!free_.contains(place)) is_held_[place] = true;
  }
}

void SpillFile::shrink() {
  uint64_t kept = places_;
  while (kept > 0 && free_.contains(kept - 1)) kept--;
  if (kept == places_) return;
  if (ftruncate(fd(), static_cast<off_t>(kept * place_bytes_)) != 0) return;
  while (places_ > kept) free_.take(--places_);
  is_held_.resize(places_);
}

/// Makes at least one place more, if it can.
bool SpillFile::grow() {
  uint64_t more = std::max<uint64_t>(1, growth_bytes_ / place_bytes_);
  int error_number = reserve(more);
  while (is_lack_of_room(error_number) && more > 1) {
    more /= 2;
    error_number = reserve(more);
  }
  if (error_number != 0) {
    last_error_ = error_number;
    return false;
  }
  is_held_.resize(places_ + more);
  // From the last one on: room for all of them is made at once.
  for (uint64_t place = places_ + more; place > places_; --place) free_.add(place - 1);
  places_ += more;
  return true;
}

/// Lengthens the file by so many places. Returns 0 or the errno.
int SpillFile::reserve(uint64_t places) {
  const uint64_t size_bytes = (places_ + places) * place_bytes_;
  if (!is_within_limit(size_bytes)) return EFBIG;
  int result;
  do {
    result = fallocate(fd(), 0, static_cast<off_t>(reserved_bytes()),
                       static_cast<off_t>(places * place_bytes_));
  } while (result != 0 && errno == EINTR);
  if (result == 0) return 0;
  // There a write may find the disk full, which the pager outlives, too.
  if (errno != EOPNOTSUPP) return errno;
  return ftruncate(fd(), static_cast<off_t>(size_bytes)) == 0 ? 0 : errno;
}

Result<uint64_t> room_bytes(const std::string& folder) {
  struct statvfs file_system;
  if (statvfs(folder.c_str(), &file_system) != 0) return cannot_spill(folder, errno);
  return uint64_t{file_system.f_bavail} * file_system.f_frsize;
}

}  // namespace weightpager::spill
