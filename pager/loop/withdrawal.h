// Parts of spilled memory that the engine protects, or takes for something else.
//
// The kernel moves pages only between places that are protected alike, within one mapping. So what
// the engine forbids itself in whole chunks is noted, and lifted for the moment in which a chunk is
// moved. Anything finer than a chunk, and whatever else an engine may do with memory of its own,
// cannot be done with pages that come and go: such chunks are withdrawn. Their bytes move to plain
// memory at the same addresses, which is the kernel's from then on, and beyond the window.
//
// Withdrawing copies a chunk on the pager's thread (0.3 ms): it is rare, and nobody may write to
// the chunk meanwhile. Used by the pager's thread only.
#pragma once

#include <cstddef>
#include <cstdint>

#include "pager/loop/chunk_mover.h"
#include "pager/loop/region_commands.h"
#include "pager/loop/spilling.h"

namespace weightpager {

/// What became of a request to withdraw chunks.
enum class Withdrawn : uint8_t {
  done,
  is_absent,  // some chunk has to be touched first
  is_busy,    // somebody holds pages of it, or it is on its way: again in a moment
};

class Withdrawal {
 public:
  Withdrawal(const LoopParts& parts, Spilling& spilling, RegionCommands& regions)
      : parts_(parts), spilling_(spilling), regions_(regions) {}

  /// The engine does without these rights (PROT_ flags) in whole chunks from now on. Returns false
  /// if the kernel has no room for one more mapping; the rights are then as before.
  bool withhold(std::byte* address, uint64_t length_bytes, int rights);
  /// Whole chunks are replaced by `replacement`, which gets their bytes. Unless `done`, nothing
  /// has changed.
  Withdrawn withdraw(const window::AddressSpace& own, std::byte* address, uint64_t length_bytes,
                     std::byte* replacement);

 private:
  template <typename Act>
  void for_each_chunk_in(const std::byte* address, uint64_t length_bytes, Act act) const;
  Withdrawn take_out(ServedFile& served, window::ChunkId chunk);

  const LoopParts parts_;
  Spilling& spilling_;
  RegionCommands& regions_;
};

}  // namespace weightpager
