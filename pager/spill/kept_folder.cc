#include "pager/spill/kept_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <ctime>
#include <memory>
#include <string_view>
#include <thread>
#include <utility>

#include "pager/base/assert.h"
#include "pager/base/units.h"

namespace weightpager::spill {
namespace {

constexpr std::string_view kept_prefix = "/kept-";
constexpr std::string_view kept_index_suffix = ".index";
constexpr std::string_view kept_chunks_suffix = ".chunks";
// A run that is killed leaves as much behind that nobody uses.
constexpr uint64_t kept_growth_bytes = 8 * MiB;
constexpr uint64_t kept_index_bytes_max = 256 * MiB;
constexpr int64_t unused_ns_max = int64_t{30} * 24 * 3600 * second_ns;
// Who holds the folder's lock removes and makes some files, no more.
constexpr int lock_tries = 500;
constexpr std::chrono::milliseconds lock_pause{10};

const char* kept_cure_of(int error_number) {
  switch (error_number) {
    case ENOENT:
    case ENOTDIR:
      return "make the folder that it lies in first, or name another one: --keep-copies DIR";
    case ENOSPC:
    case EDQUOT:
      return "free some space there, or name a folder on another disk: --keep-copies DIR";
    default:
      return "name a folder of this user's own: --keep-copies DIR";
  }
}

tl::unexpected<Error> cannot_keep(const std::string& path, int error_number) {
  return fail(fmt::format("cannot keep copies in {}: {} (errno {})", path,
                          std::strerror(error_number), error_number),
              kept_cure_of(error_number), error_number);
}

// ---- The folder's files ----

/// One run's pair of files.
struct KeptPair {
  uint64_t number = 0;
  std::string index_path;
  std::string chunks_path;
  OwnedFd index;
  OwnedFd chunks;
  uint64_t disk_bytes = 0;
  uint64_t size_bytes = 0;
  int64_t used_ns = 0;
  bool is_being_written = false;
  std::optional<KeptRecords> kept;
};

// Every run's files are safe because others see its locks.
bool lies_on_network(int fd) {
  struct statfs file_system;
  if (fstatfs(fd, &file_system) != 0) return false;
  constexpr std::array<uint32_t, 9> types = {
      NFS_SUPER_MAGIC,  SMB_SUPER_MAGIC,  CIFS_SUPER_MAGIC, SMB2_SUPER_MAGIC, V9FS_MAGIC,
      FUSE_SUPER_MAGIC, CEPH_SUPER_MAGIC, AFS_FS_MAGIC,     0x0bd00bd0 /* Lustre */};
  const auto type = static_cast<uint32_t>(file_system.f_type);
  return std::find(types.begin(), types.end(), type) != types.end();
}

std::string pair_path(const std::string& folder, uint64_t number, std::string_view suffix) {
  return fmt::format("{}{}{:06}{}", folder, kept_prefix, number, suffix);
}

/// The number in kept-NUMBER and the suffix.
std::optional<uint64_t> number_in(std::string_view name, std::string_view suffix) {
  const std::string_view prefix = kept_prefix.substr(1);
  if (!name.starts_with(prefix) || !name.ends_with(suffix)) return std::nullopt;
  name.remove_prefix(prefix.size());
  name.remove_suffix(std::min(suffix.size(), name.size()));
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error != std::errc() || end != name.data() + name.size()) return std::nullopt;
  return number;
}

std::vector<uint64_t> numbers_in(const std::string& folder, std::string_view suffix) {
  std::vector<uint64_t> numbers;
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(opendir(folder.c_str()), closedir);
  while (directory != nullptr) {
    const dirent* const entry = readdir(directory.get());
    if (entry == nullptr) break;
    if (const auto number = number_in(entry->d_name, suffix)) numbers.push_back(*number);
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

/// A regular file of this user's alone; closed if it is not.
OwnedFd open_private(const std::string& path, int flags, struct stat& facts) {
  OwnedFd file(::open(path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  const bool is_ours = file.is_open() && fstat(file.get(), &facts) == 0 && S_ISREG(facts.st_mode) &&
                       facts.st_uid == geteuid() && (facts.st_mode & 077) == 0;
  return is_ours ? std::move(file) : OwnedFd();
}

std::vector<std::byte> read_all(int fd, uint64_t size_bytes) {
  std::vector<std::byte> bytes(std::min(size_bytes, kept_index_bytes_max));
  size_t read_bytes = 0;
  while (read_bytes < bytes.size()) {
    const ssize_t more = ::pread(fd, bytes.data() + read_bytes, bytes.size() - read_bytes,
                                 static_cast<off_t>(read_bytes));
    if (more < 0 && errno == EINTR) continue;
    if (more <= 0) break;
    read_bytes += static_cast<size_t>(more);
  }
  bytes.resize(read_bytes);
  return bytes;
}

/// Nothing: the files are not this user's alone, or one is missing.
std::optional<KeptPair> open_pair(const std::string& folder, uint64_t number) {
  KeptPair pair{.number = number,
                .index_path = pair_path(folder, number, kept_index_suffix),
                .chunks_path = pair_path(folder, number, kept_chunks_suffix)};
  struct stat index_facts;
  struct stat chunks_facts;
  pair.index = open_private(pair.index_path, O_RDWR, index_facts);
  pair.chunks = open_private(pair.chunks_path, O_RDONLY, chunks_facts);
  if (!pair.index.is_open() || !pair.chunks.is_open()) return std::nullopt;
  pair.disk_bytes = static_cast<uint64_t>(chunks_facts.st_blocks) * 512;
  pair.size_bytes = static_cast<uint64_t>(chunks_facts.st_size);
  pair.used_ns = index_facts.st_mtim.tv_sec * int64_t{second_ns} + index_facts.st_mtim.tv_nsec;
  // Its own run's lock tells that it is alive.
  pair.is_being_written = flock(pair.index.get(), LOCK_SH | LOCK_NB) != 0;
  if (pair.is_being_written) return pair;
  pair.kept =
      parse_kept_records(read_all(pair.index.get(), static_cast<uint64_t>(index_facts.st_size)));
  return pair;
}

// The index first: without it nobody looks for the chunks.
void remove_pair(const std::string& folder, uint64_t number) {
  ::unlink(pair_path(folder, number, kept_index_suffix).c_str());
  ::unlink(pair_path(folder, number, kept_chunks_suffix).c_str());
}

/// Which pairs stay, the last used first; the others are removed.
std::vector<KeptPair> sort_out(const std::string& folder, std::vector<KeptPair> pairs,
                               uint64_t room_bytes, std::vector<std::string>& notices) {
  std::sort(pairs.begin(), pairs.end(), [](const KeptPair& one, const KeptPair& other) {
    return std::tuple(one.is_being_written, one.used_ns, one.number) >
           std::tuple(other.is_being_written, other.used_ns, other.number);
  });
  uint64_t all_bytes = 0;
  for (const KeptPair& it : pairs) all_bytes += it.disk_bytes;
  const uint64_t bytes_max = (all_bytes + room_bytes) / 2;
  const int64_t now_ns = std::time(nullptr) * int64_t{second_ns};
  uint64_t kept_bytes = 0;
  std::vector<KeptPair> staying;
  for (KeptPair& it : pairs) {
    const bool is_damaged = !it.is_being_written && !it.kept;
    if (is_damaged) {
      notices.push_back(it.index_path +
                        ": is no index of copies, or damaged; it was removed with "
                        "its copies, which are made anew");
    }
    const bool is_of_use = it.is_being_written || (it.kept && !it.kept->records.empty());
    const bool has_room =
        staying.size() < kept_files_max && kept_bytes + it.disk_bytes <= bytes_max;
    const bool is_old = now_ns - it.used_ns > unused_ns_max;
    if (!it.is_being_written && (!is_of_use || !has_room || is_old)) {
      remove_pair(folder, it.number);
      continue;
    }
    kept_bytes += it.disk_bytes;
    staying.push_back(std::move(it));
  }
  return staying;
}

// ---- This run's files ----

/// The folder's lock, for as long as a start looks at its files.
Result<OwnedFd> lock_folder(const std::string& folder) {
  const std::string path = folder + "/lock";
  OwnedFd lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600));
  if (!lock.is_open()) return cannot_keep(path, errno);
  for (int i = 0; i < lock_tries; ++i) {
    if (flock(lock.get(), LOCK_EX | LOCK_NB) == 0) return lock;
    if (errno != EWOULDBLOCK && errno != EINTR) return cannot_keep(path, errno);
    std::this_thread::sleep_for(lock_pause);
  }
  return fail("cannot keep copies in " + folder + ": another process holds its lock",
              "fuser " + path + " names the process; stopped ones hold it, too", EWOULDBLOCK);
}

bool write_head(int fd, uint64_t place_bytes) {
  const KeptRecordBytes head = kept_head(place_bytes);
  return ::pwrite(fd, head.data(), head.size(), 0) == static_cast<ssize_t>(head.size());
}

Status begin_own(KeptFolder& kept, const std::string& folder, uint64_t number,
                 uint64_t place_bytes) {
  constexpr int flags = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW | O_LARGEFILE;
  const std::string chunks_path = pair_path(folder, number, kept_chunks_suffix);
  OwnedFd chunks(::open(chunks_path.c_str(), flags, 0600));
  if (!chunks.is_open()) return cannot_keep(chunks_path, errno);
  kept.own_index_path = pair_path(folder, number, kept_index_suffix);
  kept.own_index = OwnedFd(::open(kept.own_index_path.c_str(), flags, 0600));
  const bool is_made = kept.own_index.is_open() && flock(kept.own_index.get(), LOCK_EX) == 0 &&
                       write_head(kept.own_index.get(), place_bytes);
  if (!is_made) {
    const int error_number = errno;
    remove_pair(folder, number);
    return cannot_keep(kept.own_index_path, error_number);
  }
  kept.own = SpillFile(std::move(chunks), place_bytes, kept_growth_bytes);
  return {};
}

EarlierKept earlier_of(KeptPair& pair) {
  EarlierKept earlier{.chunks = std::move(pair.chunks),
                      .is_direct = false,
                      .index_path = pair.index_path,
                      .records = std::move(pair.kept->records)};
  earlier.is_direct = fcntl(earlier.chunks.get(), F_SETFL, O_DIRECT) == 0;
  std::erase_if(earlier.records, [&](const KeptRecord& record) {
    return (record.place + 1) * pair.kept->place_bytes > pair.size_bytes;
  });
  return earlier;
}

}  // namespace

Status check_kept_folder(const std::string& folder) {
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return cannot_keep(folder, errno);
  const OwnedFd opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct stat facts;
  if (!opened.is_open() || fstat(opened.get(), &facts) != 0) return cannot_keep(folder, errno);
  if (facts.st_uid != geteuid()) {
    return fail("cannot keep copies in " + folder + ": the folder is another user's",
                "name a folder of this user's own: --keep-copies DIR", EPERM);
  }
  if ((facts.st_mode & 022) != 0) {
    return fail("cannot keep copies in " + folder + ": others may write there",
                "chmod go-w " + folder + ", or name another folder: --keep-copies DIR", EPERM);
  }
  if (lies_on_network(opened.get())) {
    return fail(
        "cannot keep copies in " + folder +
            ": its file system is another machine's or a program's (NFS, SMB, FUSE, …), where "
            "a lock may not be seen by everybody",
        "name a folder on this machine's own disk: --keep-copies DIR", EINVAL);
  }
  if (lies_in_memory(opened.get())) {
    return fail("cannot keep copies in " + folder +
                    ": its file system is in memory, which spilling shall save",
                "name a folder on a disk: --keep-copies DIR", EINVAL);
  }
  if (::access(folder.c_str(), W_OK | X_OK) != 0) return cannot_keep(folder, errno);
  return {};
}

Result<KeptFolder> open_kept_folder(const std::string& folder, uint64_t place_bytes) {
  if (auto usable = check_kept_folder(folder); !usable) return forward_error(std::move(usable));
  const auto lock = lock_folder(folder);
  if (!lock) return tl::make_unexpected(lock.error());
  const auto numbers = numbers_in(folder, kept_index_suffix);
  uint64_t next_number = numbers.empty() ? 1 : numbers.back() + 1;
  // A start that was killed may have left chunks without an index.
  for (const uint64_t number : numbers_in(folder, kept_chunks_suffix)) {
    next_number = std::max(next_number, number + 1);
    if (!std::binary_search(numbers.begin(), numbers.end(), number)) remove_pair(folder, number);
  }
  std::vector<KeptPair> pairs;
  for (const uint64_t number : numbers) {
    if (auto pair = open_pair(folder, number)) pairs.push_back(std::move(*pair));
  }
  KeptFolder kept;
  auto room = room_bytes(folder);
  if (!room) return forward_error(std::move(room));
  uint64_t kept_bytes = 0;
  for (KeptPair& it : sort_out(folder, std::move(pairs), *room, kept.notices)) {
    kept_bytes += it.disk_bytes;
    if (it.kept && it.kept->place_bytes == place_bytes) kept.earlier.push_back(earlier_of(it));
  }
  const uint64_t free_bytes = room_bytes(folder).value_or(0);
  kept.own_bytes_max = free_bytes > kept_bytes ? (free_bytes - kept_bytes) / 2 : 0;
  if (auto begun = begin_own(kept, folder, next_number, place_bytes); !begun)
    return forward_error(std::move(begun));
  return kept;
}

void note_kept_use(const std::string& index_path) {
  ::utimensat(AT_FDCWD, index_path.c_str(), nullptr, AT_SYMLINK_NOFOLLOW);
}

void remove_kept(const std::string& index_path) {
  const std::string_view stem =
      std::string_view(index_path).substr(0, index_path.size() - kept_index_suffix.size());
  ::unlink(index_path.c_str());
  ::unlink((std::string(stem) + std::string(kept_chunks_suffix)).c_str());
}

}  // namespace weightpager::spill
