// How much memory is left below the limit that this process lives under, and how large a window
// that allows.
//
// Window memory cannot be reclaimed by the kernel: when a cgroup reaches its limit (because the
// engine's own memory grew, or a neighbour's in the same group), the OOM killer comes. The pager
// can give memory back at no other price than more reading. So it looks now and then, and makes the
// window smaller before that happens, and larger again when there is room.
//
// Looking allocates nothing, for the pager's thread looks between two faults: the kernel's files
// stay open and are read into a buffer on the stack. Cost: two small files, some 20 µs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "pager/base/owned_fd.h"

namespace weightpager::window {

class MemoryHeadroom {
 public:
  /// Finds the limit and opens the files that tell what is used, in the descriptor table of the
  /// calling thread, which also has to destroy it. `root` is put before /proc and the cgroup
  /// mounts, for tests.
  explicit MemoryHeadroom(const std::string& root = "");

  /// How many bytes may still be used: the limit, less the used memory that is not page cache (the
  /// kernel takes page cache back by itself). Without a cgroup's limit, it is the machine's
  /// MemAvailable. Nothing if it is unknown. Allocates nothing.
  std::optional<int64_t> bytes() const;
  /// The file that has the limit.
  const std::string& source() const { return source_; }

 private:
  std::string source_;
  uint64_t limit_bytes_ = 0;
  OwnedFd usage_;       // not open if no cgroup has a limit
  OwnedFd statistics_;  // the cgroup's, or the machine's
  const char* cache_prefix_ = "";
};

/// How many chunks a window shall have that now has `chunks` and should have `wanted_chunks`. The
/// window shrinks when less than a mark is left, until twice that mark is left. It grows when more
/// than a wider mark is left, by half of what is above that mark, so that it settles.
uint32_t window_chunks_that_fit(uint32_t chunks, uint32_t wanted_chunks, int64_t headroom_bytes,
                                uint64_t chunk_bytes);

}  // namespace weightpager::window
