// The file to which chunks are written that have to leave the window and are in no file yet.
//
// Problem. Memory that an engine has written itself cannot be dropped and read again. It needs a
// place on a disk: one that is there when it is needed, that does not pass through memory again,
// and of which nothing is left when the process is gone, however it ends.
//
// Idea. A file without a name (O_TMPFILE, else unlinked at once), opened past the page cache. It is
// divided into places of one chunk each. The lowest free place is given out first, so that chunks
// that leave one after the other lie side by side. The file grows by `fallocate`, in steps: its
// blocks are reserved before a place is promised, so a full disk shows when a place is asked for,
// and not when a chunk is being written.
//
// Cost: a place is taken and given back by a few operations on bits; a system call per 64 MiB of
// growth. One bit per place, twice.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "pager/base/owned_fd.h"
#include "pager/base/result.h"
#include "pager/spill/free_places.h"

namespace weightpager::spill {

/// Used by one thread; io::Reader reads and writes it. Allocates only when it grows.
class SpillFile {
 public:
  /// `place_bytes` is a multiple of 4 KiB. The error says what helps.
  static Result<SpillFile> create(const std::string& folder, uint64_t place_bytes);
  /// Of an empty file that has a name (kept_folder.h).
  SpillFile(OwnedFd file, uint64_t place_bytes, uint64_t growth_bytes);
  SpillFile() = default;

  SpillFile(SpillFile&&) noexcept = default;
  SpillFile& operator=(SpillFile&&) noexcept = default;

  int fd() const { return file_.get(); }
  /// Reads and writes bypass the page cache. If not, each is also a copy in memory, which the
  /// kernel drops when it needs the room.
  bool is_direct() const { return is_direct_; }
  uint64_t place_bytes() const { return place_bytes_; }

  /// The offset of the lowest free place. Nothing if the file cannot grow: see last_error().
  std::optional<uint64_t> take_place();
  /// The place at `offset` is free again, if it is not held.
  void give_place(uint64_t offset);
  /// The errno of the last growth that failed; 0 if none has.
  int last_error() const { return last_error_; }

  /// The places that are taken now are never given out again, because a child process may read
  /// them for as long as it lives.
  void hold_all();

  /// Gives the disk back what is free at the end. No read or write of a free place may be in
  /// flight.
  void shrink();

  /// Whether a place can be taken without growth.
  bool has_free_place() const { return free_.count() > 0; }
  /// Places that were taken and not given back.
  uint64_t places_in_use() const { return places_in_use_; }
  /// The file's length on the disk.
  uint64_t reserved_bytes() const { return places_ * place_bytes_; }

 private:
  bool grow();
  int reserve(uint64_t places);

  OwnedFd file_;
  bool is_direct_ = false;
  uint64_t place_bytes_ = 0;
  uint64_t growth_bytes_ = 0;
  uint64_t places_ = 0;  // that the file has
  uint64_t places_in_use_ = 0;
  int last_error_ = 0;
  FreePlaces free_;
  std::vector<bool> is_held_;
};

/// Whether what is written to the file or folder stays in memory.
bool lies_in_memory(int fd);
/// What an unprivileged process may still write in `folder`'s file system.
Result<uint64_t> room_bytes(const std::string& folder);

}  // namespace weightpager::spill
