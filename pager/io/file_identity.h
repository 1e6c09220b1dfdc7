// Which bytes a file has, as far as the kernel tells: what files are told apart by, everywhere.
//
// Device and inode say which file it is, whatever its name; length and both times say that nobody
// wrote to it since it was looked at. mtime alone can be set back (cp -p, touch -r); ctime cannot.
// It changes with a file's names and rights, too; then the file is read anew for nothing. The
// kernel's own change counter (STATX_CHANGE_COOKIE) is not given to programs: statx takes it out of
// what they ask for. Since Linux 6.13 the times of most local filesystems are as good, for each
// change that follows a look gets a time of its own.
//
// Before, and elsewhere, times come in ticks of some milliseconds, on old filesystems of seconds. A
// file that was changed within the tick of the look may change again and look the same, so such a
// look vouches for nothing (is_settled), and nothing is shared on its account.
//
// What leaves no trace: a store through a shared mapping into a page that is dirty already. On
// disks a direct read writes such pages back first, so that the next store shows. Where files live
// in memory (tmpfs), or reads go through the page cache, it does not.
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
  uint64_t names = 0;       // links to it
  /// Whoever changes it after the look gives it another time.
  bool is_settled = false;

  /// The same file, perhaps with other bytes.
  bool is_of_file(const FileIdentity& other) const {
    return device == other.device && inode == other.inode;
  }
  bool looks_like(const FileIdentity& other) const {
    return is_of_file(other) && size_bytes == other.size_bytes &&
           modified_ns == other.modified_ns && changed_ns == other.changed_ns;
  }
  /// Whether the file had the same bytes all the time from this look to the later one.
  bool holds_until(const FileIdentity& later) const { return is_settled && looks_like(later); }
  /// Its bytes, if its times were not set back.
  bool was_written_until(const FileIdentity& later) const {
    return size_bytes != later.size_bytes || modified_ns != later.modified_ns;
  }
  /// The same with times that may have been set back: all that changed can also be its rights, but
  /// not only how many names it has. For who used it before: a file that was replaced by another
  /// goes on as it was.
  bool may_have_other_bytes(const FileIdentity& later) const {
    return was_written_until(later) || (changed_ns != later.changed_ns && names == later.names);
  }
};

/// Takes no lock that a writer holds, allocates nothing; a microsecond. `now_ns`: of the realtime
/// clock.
FileIdentity identity_of(const struct stat& facts, int64_t now_ns);
/// Nothing if the kernel does not say.
std::optional<FileIdentity> identity_of(int fd);

/// The same, of a file that was changed just now after a wait for the kernel's next tick, so that
/// its mappings can share what is read.
std::optional<FileIdentity> settled_identity_of(int fd);
std::optional<FileIdentity> settled_identity_of(const std::string& path);

}  // namespace weightpager::io
