// The folder of --keep-copies: chunks of spilled memory that outlive the run which wrote them.
//
// Problem. An engine that repacks its weights writes the same bytes to the disk at every start. The
// bytes are to be found again by the next run, several engines may use one folder at once, and any
// of them may be killed at any instruction.
//
// Idea. Each run writes a file of its own (kept-N.chunks) and its index (kept-N.index,
// kept_records.h), which it holds a lock on as long as it lives. As long as it does, nobody else
// looks into the two; afterwards nobody ever changes them. So no place is ever overwritten while
// another process, or a child of one that is gone, has it as home. Files are only removed as a
// whole, at a start; whoever has one open goes on with it.
//
// What stays: at each start the files go that have no chunks, that no run has used for 30 days,
// and, the least recently used first, so many that at most 32 are left and that they take at most
// half of the room which the disk would have without them. When a file was used last, its index's
// time says.
//
// An engine's process ends without closing its pager. So its files stay as they are: with the room
// that was reserved for more, and with places that are free. What has no chunk goes at the next
// start.
//
// Cost: a start reads 32 bytes for each place. The folder, and the weights in it, are its owner's
// alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "pager/base/owned_fd.h"
#include "pager/base/result.h"
#include "pager/spill/kept_records.h"
#include "pager/spill/spill_file.h"

namespace weightpager::spill {

inline constexpr uint32_t kept_files_max = 32;

/// What an earlier run has kept.
struct EarlierKept {
  OwnedFd chunks;
  bool is_direct = false;
  std::string index_path;
  std::vector<KeptRecord> records;  // of whole places
};

/// A run's own part of the folder, and what it found there.
struct KeptFolder {
  SpillFile own;
  OwnedFd own_index;  // locked
  std::string own_index_path;
  std::vector<EarlierKept> earlier;  // whose places are as large; the last used first
  /// What the file of this run may take.
  uint64_t own_bytes_max = 0;
  /// What the user should hear.
  std::vector<std::string> notices;
};

/// Makes the folder if it is not there. Fails if it is not this user's alone, or if its file system
/// is in memory.
Status check_kept_folder(const std::string& folder);

/// Does the same, removes what is not to stay, and begins a file for this run.
Result<KeptFolder> open_kept_folder(const std::string& folder, uint64_t place_bytes);

/// Says in the folder that the file with this index is of use. Any thread.
void note_kept_use(const std::string& index_path);
/// Removes the file with this index.
void remove_kept(const std::string& index_path);

}  // namespace weightpager::spill
