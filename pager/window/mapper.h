// How a chunk's bytes get from a slot into the region and out again.
//
// `move` (kernel 6.8 on): UFFDIO_MOVE moves the slot's own huge page: about 1 µs for 2 MiB either
// way, nothing is copied, zeroed or freed, and the engine gets huge pages. `copy` (4.11 on):
// UFFDIO_COPY fills fresh memory of the region (about 0.6 ms), which eviction frees again. Both
// make a chunk appear all at once. Which one works is found by trying
// it.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "pager/fault/userfaultfd.h"
#include "pager/window/region.h"

namespace weightpager::window {

/// Used by the pager's thread only. Addresses are those of whole chunks; nothing here allocates.
class Mapper {
 public:
  virtual ~Mapper() = default;
  virtual const char* name() const = 0;

  /// True: a mapped chunk keeps its slot, and can be held. False: it gives the slot back.
  virtual bool keeps_slot() const = 0;

  /// Makes a populated part of the slot pool fit for use.
  virtual Status prepare_slots(std::byte* slots, uint64_t length_bytes) = 0;

  /// slot → region. Who waits for the chunk is to be woken by the caller.
  virtual fault::Outcome map(std::byte* chunk, std::byte* slot) = 0;
  /// region → slot, bytes kept if keeps_slot(); otherwise `slot` is not used and the bytes are
  /// gone.
  virtual fault::Outcome unmap(std::byte* chunk, std::byte* slot) = 0;
};

std::unique_ptr<Mapper> make_move_mapper(fault::Userfaultfd& uffd);
std::unique_ptr<Mapper> make_copy_mapper(fault::Userfaultfd& uffd);

/// Copies the live pages of a chunk from its slot, write-protected, the same for every mapper:
/// edges, which are no whole 2 MiB, and chunks of writable regions. UFFDIO_COPY can let a page
/// arrive protected; UFFDIO_MOVE cannot, and a write between moving and protecting would go
/// unnoticed and be lost.
fault::Outcome copy_live_pages(const fault::Userfaultfd& uffd, const Region& region, uint32_t index,
                               const std::byte* slot);
/// Frees the live pages of a chunk that came by copy_live_pages. A thread that writes at that
/// moment stands still at the protection and finds the page absent when it goes on.
void drop_live_pages(const Region& region, uint32_t index);

/// `name`: "move", "copy", or "auto" for the best that works here. Probes with real memory; an
/// explicit mapper that does not work is an error, never replaced in silence.
Result<std::unique_ptr<Mapper>> choose_mapper(std::string_view name, fault::Userfaultfd& uffd);

}  // namespace weightpager::window
