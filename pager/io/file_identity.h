// Tells files and their contents apart, as far as the kernel tells. All code uses this.
//
// Device and inode identify the file, whatever its name is. Its length and both of its times show
// that nobody has written to it since the last look. mtime alone can be set back (cp -p, touch -r);
// ctime cannot. ctime also changes with a file's names and rights; then the file is read again for
// nothing. The kernel's own change counter (STATX_CHANGE_COOKIE) is not given to programs: statx
// drops it from their requests. Since Linux 6.13 the times of most local filesystems are as good,
// because each change that follows a look gets a time of its own.
//
// On older kernels and other filesystems, times come in ticks of some milliseconds, on old
// filesystems of seconds. A file that was changed within the tick of the look may change again and
// look the same. Such a look proves nothing (is_settled), and nothing is shared because of it.
//
// One change leaves no trace: a store through a shared mapping into a page that is dirty already.
// On disks a direct read writes such pages back first, so that the next store shows. For files in
// memory (tmpfs), and for reads through the page cache, it does not show.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <optional>
#include <string>

namespace weightpager::io {

struct FileIdentity {
  uint64_t device = 0;
  uint64_t inode = 0;
  uint64_t size_bytes = 0;
  int64_t modified_ns = 0;  // mtime
  int64_t changed_ns = 0;   // ctime
  uint64_t names = 0;       // hard links to the file
  /// Every change after the look gives the file another time.
  bool is_settled = false;

  /// Whether it is the same file, perhaps with other bytes.
  bool is_of_file(const FileIdentity& other) const {
    return device == other.device && inode == other.inode;
  }
  bool looks_like(const FileIdentity& other) const {
    return is_of_file(other) && size_bytes == other.size_bytes &&
           modified_ns == other.modified_ns && changed_ns == other.changed_ns;
  }
  /// Whether the file had the same bytes all the time from this look to the later one.
  bool holds_until(const FileIdentity& later) const { return is_settled && looks_like(later); }
  /// Whether its bytes were written between the two looks, if its times were not set back.
  bool was_written_until(const FileIdentity& later) const {
    return size_bytes != later.size_bytes || modified_ns != later.modified_ns;
  }
  /// The same for times that may have been set back. Returns true, too, if only its rights have
  /// changed, but not if only the number of its names has. So a user of a file that was replaced by
  /// another one goes on with the old bytes.
  bool may_have_other_bytes(const FileIdentity& later) const {
    return was_written_until(later) || (changed_ns != later.changed_ns && names == later.names);
  }
};

/// Takes no lock that a writer holds, allocates nothing, and takes a microsecond. `now_ns`: the
/// time of the realtime clock.
FileIdentity identity_of(const struct stat& facts, int64_t now_ns);
/// nullopt if the kernel does not say.
std::optional<FileIdentity> identity_of(int fd);

/// The same. If the file was changed just now, waits for the kernel's next tick first, so that its
/// mappings can share the bytes that are read.
std::optional<FileIdentity> settled_identity_of(int fd);
std::optional<FileIdentity> settled_identity_of(const std::string& path);

}  // namespace weightpager::io
