// Model files are read past the page cache (O_DIRECT): the window is the only copy of the weights
// in memory, and the device writes straight into it. Some filesystems refuse O_DIRECT at once, some
// only when the file is read, and some accept it and cache all the same. So it is tried.
#include "pager/io/model_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <utility>

#include "pager/base/system_calls.h"
#include "pager/base/units.h"

namespace weightpager::io {
namespace {

const char* cure_of(int error_number) {
  switch (error_number) {
    case ENOENT:
    case ENOTDIR:
      return "there is no such file: check the path, or finish the download";
    case EACCES:
    case EPERM:
      return "this user may not read it: see `namei -l` on the path, then `chmod a+r` the file";
    case EMFILE:
    case ENFILE:
      return "too many open files: raise `ulimit -n`";
    case EIO:
    case ESTALE:
      return "the disk or the file server fails: see `dmesg`";
    default:
      return "";
  }
}

tl::unexpected<Error> fail_to(const char* verb, const std::string& path, int error_number) {
  return fail(fmt::format("cannot {} {}: {} (errno {})", verb, path, std::strerror(error_number),
                          error_number),
              cure_of(error_number), error_number);
}

/// Whether the file exists in the page cache only, so that no read can bypass the cache.
bool lives_in_memory(int fd) {
  struct statfs filesystem;
  if (fstatfs(fd, &filesystem) != 0) return false;
  const auto type = static_cast<uint32_t>(filesystem.f_type);
  return type == TMPFS_MAGIC || type == RAMFS_MAGIC || type == HUGETLBFS_MAGIC;
}

/// `struct statx` as of Linux 6.1; the C library's headers may be too old for it.
struct StatxAnswer {
  uint32_t mask;
  std::byte others[0x94];
  uint32_t direct_memory_alignment_bytes;
  uint32_t direct_offset_alignment_bytes;
  std::byte reserved[0x60];
};
static_assert(sizeof(StatxAnswer) == 0x100);
constexpr uint32_t statx_direct_alignment = 0x2000;  // STATX_DIOALIGN

/// The alignment for direct reads that the filesystem names. If it names none: 4 KiB, which suits
/// all known filesystems. 0 if it says that this file has no direct reads.
uint32_t direct_alignment_bytes(int fd) {
  StatxAnswer answer{};
  const long result = syscall(SYS_statx, fd, "", AT_EMPTY_PATH, statx_direct_alignment, &answer);
  if (result != 0 || !(answer.mask & statx_direct_alignment)) return os_page_bytes;
  return std::max(answer.direct_memory_alignment_bytes, answer.direct_offset_alignment_bytes);
}

bool probe_read_succeeds(int fd) {
  alignas(os_page_bytes) std::byte page[os_page_bytes];
  ssize_t bytes;
  do {
    bytes = pread(fd, page, sizeof page, 0);
  } while (bytes < 0 && errno == EINTR);
  return bytes >= 0;
}

/// Makes reads of `fd` direct and returns their alignment, or leaves it cached and returns 0.
uint32_t make_direct(int fd) {
  if (lives_in_memory(fd)) return 0;
  const uint32_t alignment_bytes = direct_alignment_bytes(fd);
  if (alignment_bytes == 0 || fcntl(fd, F_SETFL, O_DIRECT) != 0) return 0;
  if (probe_read_succeeds(fd)) return alignment_bytes;
  fcntl(fd, F_SETFL, 0);
  return 0;
}

/// The sysfs directory for the queue of the block device that `fd` lies on. For a partition it is
/// the directory of its disk.
std::string queue_directory(int fd) {
  struct stat status;
  if (kernel::fstat(fd, &status) != 0) return {};
  const dev_t device = S_ISBLK(status.st_mode) ? status.st_rdev : status.st_dev;
  const std::string directory = fmt::format("/sys/dev/block/{}:{}/", major(device), minor(device));
  const bool is_partition = access((directory + "partition").c_str(), F_OK) == 0;
  return directory + (is_partition ? "../queue/" : "queue/");
}

uint64_t queue_limit(const std::string& directory, const char* name, uint64_t if_unknown) {
  std::ifstream file(directory + name);
  uint64_t value = 0;
  return file >> value ? value : if_unknown;
}

}  // namespace

Result<ModelFile> ModelFile::open(const std::string& path) {
  ModelFile file;
  // With O_NONBLOCK the open of a pipe without a writer returns; F_SETFL below removes the flag.
  file.fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file.fd_ < 0) return fail_to("open", path, errno);

  const auto identity = identity_of(file.fd_);
  struct stat status;
  if (!identity || kernel::fstat(file.fd_, &status) != 0) return fail_to("look at", path, errno);
  if (!S_ISREG(status.st_mode)) {
    return fail(
        fmt::format("{} is not a regular file", path),
        "a model is one or more ordinary files: name the file, not its directory or a device",
        S_ISDIR(status.st_mode) ? EISDIR : EINVAL);
  }
  file.identity_ = *identity;

  if (fcntl(file.fd_, F_SETFL, 0) != 0) return fail_to("set the flags of", path, errno);
  const uint32_t direct_alignment = make_direct(file.fd_);
  file.is_direct_ = direct_alignment > 0;
  file.alignment_bytes_ = std::max(direct_alignment, 1u);
  return file;
}

Result<ModelFile> ModelFile::open(const std::string& path, const FileIdentity& expected,
                                  const std::string& name) {
  if (path.empty()) {
    return fail(name + ": cannot be opened again without /proc", "mount /proc", ENOENT);
  }
  auto file = open(path);
  if (!file || file->identity().is_of_file(expected)) return file;
  return fail(fmt::format("{}: {} leads to another file", name, path),
              "mount a /proc of this process namespace (unshare --mount-proc), or do not replace "
              "the file while it is opened",
              ESTALE);
}

ModelFile::ModelFile(ModelFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      identity_(other.identity_),
      is_direct_(other.is_direct_),
      alignment_bytes_(other.alignment_bytes_) {}

ModelFile& ModelFile::operator=(ModelFile&& other) noexcept {
  std::swap(fd_, other.fd_);
  identity_ = other.identity_;
  is_direct_ = other.is_direct_;
  alignment_bytes_ = other.alignment_bytes_;
  return *this;
}

ModelFile::~ModelFile() {
  if (fd_ >= 0) ::close(fd_);
}

// Requests are as large as the device allows, up to the largest chunk: large requests save
// processor time, and a request of the device's own size is not split again on its way. 32 MiB are
// in flight: devices that work in parallel need this depth, it does not hurt others, and more would
// only delay the chunk that somebody waits for. `rotational` is not read, because virtual disks
// claim it without cause.
//
// Measured on a virtio disk (2 virtual processors, Linux 6.18, ext4, a 4 GiB file, io_uring, chunks
// of 2 MiB) when its host was quick and when it was slow. Depth matters only when it was slow:
//
//   chunks in flight                      1     4     8    16    32
//   GB/s, requests of 256 KiB, quick    2.5   2.5   2.5   2.6   2.5
//   GB/s, requests of 2 MiB, quick      2.4   2.5   2.5   2.6   2.6
//   GB/s, requests of 256 KiB, slow     1.0   1.4   1.5   1.7   1.5
//   GB/s, requests of 2 MiB, slow       1.0   1.2   1.6   1.5   1.7
//   processor ms per GiB, 256 KiB        18    11     9     8     8
//   processor ms per GiB, 2 MiB          14     8     6     5     4
//
// Medians of 7 shuffled runs, on a machine that had other work. The processor times are those of
// the quick host. The command:
//   WP_BENCH_FILE=… io_bench --benchmark_filter=io_uring --benchmark_repetitions=7
//     --benchmark_enable_random_interleaving=true
DeviceLimits device_limits(int fd) {
  constexpr uint64_t depth_min = 8;
  const DeviceLimits unknown;
  const std::string queue = queue_directory(fd);

  const uint64_t request_bytes =
      queue_limit(queue, "max_sectors_kb", unknown.read_bytes / KiB) * KiB;
  const uint64_t read_bytes =
      std::bit_floor(std::clamp<uint64_t>(request_bytes, 256 * KiB, chunk_bytes_max));
  const uint64_t depth_max =
      std::max(depth_min, queue_limit(queue, "nr_requests", unknown.queue_depth));
  const uint64_t depth = std::clamp(bytes_in_flight / read_bytes, depth_min, depth_max);
  const uint64_t readahead_bytes = queue_limit(queue, "read_ahead_kb", 0) * KiB;
  return {.read_bytes = static_cast<uint32_t>(read_bytes),
          .queue_depth = static_cast<uint32_t>(depth),
          .readahead_bytes = static_cast<uint32_t>(std::min<uint64_t>(readahead_bytes, UINT32_MAX)),
          .reads_are_copies = lives_in_memory(fd)};
}

}  // namespace weightpager::io
