// How a chunk's bytes get from a slot into the region and out again.
//
// `move` (kernel 6.8 on): UFFDIO_MOVE moves the slot's own huge page: about 1 µs for 2 MiB either
// way, nothing is copied, zeroed or freed, and the engine gets huge pages. `collapse` (6.1 on): the
// bytes stay in memory that regions are views of (window/shared_memory.h), and showing them is a
// matter of page tables: about 6 µs, in as many regions and processes as ask (150 µs without the
// right to huge pages of this kind). `module` (where /dev/weightpager is): so do they, and the
// kernel module shows them everywhere at once (window/module_window.h). `copy` (4.11 on):
// UFFDIO_COPY fills fresh memory of the region (about 0.6 ms), which eviction frees again. All make
// a chunk appear all at once. Which ones work is found by trying them. Chunks smaller than a huge
// page are of small pages everywhere: `move` moves them one by one, `collapse` never makes huge
// ones.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <string_view>

#include "pager/fault/userfaultfd.h"
#include "pager/window/address_space.h"
#include "pager/window/region.h"

namespace weightpager::window {

/// Neighbours in a region whose bytes lie as they do, one behind the other.
struct ChunkRun {
  uint32_t index = 0;  // of the first one, in the region
  uint32_t count = 1;
};

/// Used by the pager's thread only; nothing here allocates.
class Mapper {
 public:
  virtual ~Mapper() = default;
  virtual const char* name() const = 0;

  /// Whether a chunk that a region shows keeps its slot. False: it gives the slot back.
  virtual bool keeps_slot() const = 0;
  /// Whether the slot's own memory goes into the region, so that no other one can show the chunk.
  virtual bool moves_into(const Region&, uint32_t) const { return false; }
  /// Whether regions are views of shared memory, and slots no more than permits to fill a chunk.
  virtual bool shares_memory() const { return false; }
  /// Whether that memory is the kernel module's, which shows and hides chunks itself.
  virtual bool needs_module() const { return false; }

  /// Makes a populated part of the slot pool fit for use.
  virtual Status prepare_slots(fault::Userfaultfd&, std::byte*, uint64_t) { return {}; }
  /// Whether it registers slots for that.
  virtual bool registers_slots() const { return false; }

  // A run is of one chunk, or of chunks that move. Unless the outcome is `done`, nothing has moved.

  /// Shows the live pages of a run, whose bytes lie at `bytes`, and wakes who waits for them.
  virtual fault::Outcome show(Region& region, ChunkRun run, std::byte* bytes) = 0;
  /// Takes them away. `bytes`: where they are to be then, if chunks keep their slots.
  virtual fault::Outcome hide(Region& region, ChunkRun run, std::byte* bytes) = 0;
};

/// Copies the live pages of a chunk, write-protected: into edges, which are no whole chunk, and
/// into writable regions. UFFDIO_COPY can let a page arrive protected; UFFDIO_MOVE cannot, and a
/// write between moving and protecting would go unnoticed and be lost.
fault::Outcome copy_live_pages(const Region& region, uint32_t index, const std::byte* bytes);
/// Shows the live pages of a chunk that shared memory has, page by page, beside those that the view
/// has already. (One entry for all would be split, and gone again, by the next write.)
fault::Outcome show_live_pages(const Region& region, uint32_t index);
/// Frees the live pages of a chunk of this process's that did not come by moving. A thread that
/// writes at that moment stands still at the protection and finds the page absent when it goes on.
void drop_live_pages(const Region& region, uint32_t index);

inline constexpr std::array mapper_names = {"auto", "move", "collapse", "copy", "module"};
bool is_mapper_name(std::string_view name);
/// The best of those whose memory other processes can show.
const char* shared_mapper_name();

/// `name`: one of mapper_names; "auto" is the best that works here, for regions that are writable
/// (into which `move` copies, too) or for others. Probes with real memory of `space`, which is this
/// process's; an explicit mapper that does not work is an error, never replaced in silence.
Result<std::unique_ptr<Mapper>> choose_mapper(std::string_view name, AddressSpace& space,
                                              uint64_t chunk_bytes, bool expects_writable = false);

}  // namespace weightpager::window
