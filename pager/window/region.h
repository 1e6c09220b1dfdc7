// The reserved address range that shows one mapping of a model file, byte for byte.
//
// Chunks lie on the file's grid of chunks, so a mapping that starts or ends off the grid has chunks
// of which it shows only a part ("edges"); a chunk that the engine unmaps a part of becomes an
// edge, too. The address of byte k of the file equals k modulo 2 MiB, whatever a chunk's size.
// Beyond the end of the file a region behaves as mmap does: zeros to the end of the page, SIGBUS
// behind it.
//
// In a writable region (MAP_PRIVATE) absent pages arrive write-protected. The first write to a
// chunk hands its pages over to the engine: they are its private copy from then on, as with mmap,
// and the pager leaves them alone. (Regions of shared memory, window/shared_memory.h, are private
// views, and the kernel does this by itself, page by page.) So a page of a region is either live
// (the pager brings it and takes it away) or not (unmapped, or the engine's own).
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "pager/base/result.h"
#include "pager/base/span.h"
#include "pager/base/units.h"
#include "pager/window/address_space.h"
#include "pager/window/chunk_table.h"

namespace weightpager::window {

/// What an engine asked to map: `length_bytes` from `offset_bytes` (a multiple of the page size)
/// on.
struct Extent {
  uint64_t offset_bytes = 0;
  uint64_t length_bytes = 0;
  uint64_t file_size_bytes = 0;
  /// MAP_PRIVATE and PROT_WRITE: what the engine writes is kept, for it alone.
  bool is_writable = false;
  /// Memory of the engine's own (pager/spill): what it writes is part of the chunk, which goes and
  /// comes with it. Slots are always moved into such a region, never copied.
  bool is_spilled = false;
};

/// Pages of one chunk, with room for the largest.
using PageSet = std::bitset<chunk_bytes_max / os_page_bytes>;
/// The pages [first, end).
PageSet page_range(uint64_t first, uint64_t end);

class Region {
 public:
  static constexpr int no_memory = -1;
  /// Reserves the range in this process and seals what lies beyond the file's end. Nothing is
  /// registered or read yet. `memory_fd`: the shared memory that the region is to be a view of;
  /// `sharing`: how it is mapped where the engine only reads. (A private view of the kernel
  /// module's memory would be copied when a GPU's driver pins it; a shared view of other memory
  /// cannot be watched.)
  static Result<std::unique_ptr<Region>> reserve(const Extent& extent, uint64_t chunk_bytes,
                                                 AddressSpace& space, int memory_fd = no_memory,
                                                 int sharing = MAP_PRIVATE);
  /// A region that a guest reserved in its own memory at `address`.
  static std::unique_ptr<Region> of_guest(const Extent& extent, uint64_t chunk_bytes,
                                          AddressSpace& space, std::byte* address);
  /// Unmaps what is left of the region, if it lies in this process.
  ~Region();

  AddressSpace& space() const { return *space_; }
  std::byte* address() const { return address_; }
  uint64_t length_bytes() const { return length_bytes_; }
  const Extent& extent() const { return extent_; }
  uint64_t chunk_bytes() const { return chunk_bytes_; }
  uint64_t pages_per_chunk() const { return chunk_bytes_ / os_page_bytes; }
  /// The part of the range that shows bytes of the file, in whole pages.
  uint64_t live_bytes() const { return live_bytes_; }

  bool contains(uintptr_t address) const {
    return address - reinterpret_cast<uintptr_t>(address_) < length_bytes_;
  }
  uint32_t chunks() const { return chunks_; }
  /// Requires contains(address).
  uint32_t chunk_index(uintptr_t address) const {
    return static_cast<uint32_t>((address - reinterpret_cast<uintptr_t>(grid_)) / chunk_bytes_);
  }
  std::byte* chunk_address(uint32_t index) const { return grid_ + uint64_t{index} * chunk_bytes_; }

  /// Where chunk 0 of the region lies in the file, in chunks.
  uint32_t first_file_chunk() const {
    return static_cast<uint32_t>(extent_.offset_bytes / chunk_bytes_);
  }

  /// The live pages of an edge; nullptr for a chunk that is live as a whole.
  const PageSet* edge(uint32_t index) const;
  bool is_live(uint32_t index) const {
    const PageSet* pages = edge(index);
    return pages == nullptr || pages->any();
  }
  /// Whether the page that holds `address` (of this region) is live.
  bool is_live_at(uintptr_t address) const;

  /// The pages [first, first + count) of a chunk are no longer the pager's: the chunk becomes an
  /// edge. Returns true if no page of the chunk is live any more.
  bool drop_pages(uint32_t index, uint32_t first, uint32_t count);
  /// The same for pages that are sealed. Sealing itself is up to the caller.
  bool drop_sealed_pages(uint32_t index, uint32_t first, uint32_t count);
  /// The same for pages that the engine unmapped: from now on they are not part of this region.
  /// That the engine wrote pages of the chunk, or that some are sealed, is forgotten when the last
  /// such page goes.
  bool drop_unmapped_pages(uint32_t index, uint32_t first, uint32_t count);
  /// The engine gave up what it wrote in [first, first + count): those pages are live again. Calls
  /// `drop(address, length_bytes)` for each run of them, to take away what was written.
  template <typename Drop>
  void restore_written(uint32_t index, uint32_t first, uint32_t count, Drop drop);
  /// Pages that are the engine's own: neither live nor sealed nor unmapped.
  PageSet written_pages(uint32_t index) const;
  /// Pages that are sealed and still of this region. In a view they may be pages that the engine
  /// wrote before, which sealing spares.
  PageSet sealed_pages(uint32_t index) const;

  /// What the pager notes per chunk.
  struct Notes {
    bool is_placed = false;         // its live pages are there
    bool is_waited_for = false;     // a thread that touched it here stands still
    bool is_written = false;        // pages of it are the engine's own copy
    bool is_sealed = false;         // touching it is SIGBUS for good
    bool is_write_refused = false;  // made read-only for a thread that wrote where it must not
    bool is_divided =
        false;  // in more than one mapping of the kernel's: not to be moved as a whole
    static constexpr uint32_t no_tripwire = UINT32_MAX;
    uint32_t tripwire = no_tripwire;  // the one that took its first page away (tripwires.h)
  };
  Notes& notes(uint32_t index) { return notes_[index]; }
  const Notes& notes(uint32_t index) const { return notes_[index]; }

  /// Calls `act(address, length_bytes)` for each run of live pages of a chunk.
  template <typename Act>
  void for_each_live_run(uint32_t index, Act act) const {
    const PageSet* pages = edge(index);
    if (pages == nullptr) return act(chunk_address(index), chunk_bytes_);
    for_each_run(index, *pages, act);
  }

  /// The same for the pages `pages` of a chunk.
  template <typename Act>
  void for_each_run(uint32_t index, const PageSet& pages, Act act) const {
    for (uint64_t page = 0; page < pages_per_chunk();) {
      uint64_t end = page;
      while (end < pages_per_chunk() && pages.test(end)) ++end;
      if (end > page) {
        act(chunk_address(index) + page * os_page_bytes, (end - page) * os_page_bytes);
      }
      page = end + 1;
    }
  }

  /// The part of the span that lies in the region.
  Span part_of(const Span& span) const {
    const auto first = reinterpret_cast<uintptr_t>(address_);
    return span.part_in({first, first + length_bytes_});
  }
  /// Makes the kernel refuse accesses to the part, or allow those of protection(). Threads that
  /// waited there try again.
  void set_accessible(const Span& part, bool is_accessible) const;

  /// Calls `act(index, first page, pages)` for the part of each chunk that lies in [begin, end) and
  /// before the end of the file; `end` is rounded up to a whole page.
  template <typename Act>
  void for_each_piece(uintptr_t begin, uintptr_t end, Act act) const {
    const auto first = reinterpret_cast<uintptr_t>(address_);
    const uintptr_t last = std::min(round_up(end, os_page_bytes), first + live_bytes_);
    for (uintptr_t at = std::max(begin, first); at < last;) {
      const uint32_t index = chunk_index(at);
      const auto chunk_begin = reinterpret_cast<uintptr_t>(chunk_address(index));
      const uintptr_t piece_end = std::min(last, chunk_begin + chunk_bytes_);
      act(index, static_cast<uint32_t>((at - chunk_begin) / os_page_bytes),
          static_cast<uint32_t>((piece_end - at) / os_page_bytes));
      at = piece_end;
    }
  }

  /// Calls `act(address, length_bytes)` for each run of live pages in the range.
  template <typename Act>
  void for_each_live_run_in(uintptr_t begin, uintptr_t end, Act act) const {
    for_each_piece(begin, end, [&](uint32_t index, uint32_t first, uint32_t count) {
      PageSet pages = page_range(first, first + count);
      if (const PageSet* live = edge(index)) pages &= *live;
      for_each_run(index, pages, act);
    });
  }

  /// The same for runs of sealed pages.
  template <typename Act>
  void for_each_sealed_run_in(uintptr_t begin, uintptr_t end, Act act) const {
    for_each_piece(begin, end, [&](uint32_t index, uint32_t first, uint32_t count) {
      for_each_run(index, sealed_pages(index) & page_range(first, first + count), act);
    });
  }

  /// The PROT_ flags of live pages while the engine may access them.
  int protection() const { return protection_; }

  /// Whether the engine still has something of the region: live pages, its own, or sealed ones.
  bool is_in_use() const;

  /// The engine unmapped the range, so the destructor does not.
  void abandon() { address_ = nullptr; }

  /// From now on every touch of the range raises SIGBUS, whatever becomes of the pager.
  static void seal(void* address, uint64_t length_bytes);

 private:
  Region(const Extent& extent, uint64_t chunk_bytes, AddressSpace& space, std::byte* address);
  void note_edges();
  PageSet all_pages(uint32_t index) const;
  void restore_pages(uint32_t index, const PageSet& pages);

  Extent extent_;
  uint64_t chunk_bytes_;
  AddressSpace* space_;
  std::byte* grid_ = nullptr;     // the last border of chunks that is not behind address_
  std::byte* address_ = nullptr;  // what the engine gets
  uint64_t length_bytes_ = 0;
  uint64_t live_bytes_ = 0;
  uint32_t chunks_ = 0;
  uint32_t live_chunks_ = 0;
  // Anonymous memory is writable, as slots are: otherwise nothing could be moved between the two.
  int protection_ = PROT_READ | PROT_WRITE;
  // By chunk; where there is no entry, every page is live, and none sealed or unmapped.
  std::map<uint32_t, PageSet> edges_;
  std::map<uint32_t, PageSet> sealed_;
  std::map<uint32_t, PageSet> unmapped_;
  std::vector<Notes> notes_;
};

template <typename Drop>
void Region::restore_written(uint32_t index, uint32_t first, uint32_t count, Drop drop) {
  const PageSet pages = written_pages(index) & page_range(first, first + count);
  if (pages.none()) return;
  for_each_run(index, pages, drop);
  restore_pages(index, pages);
}

}  // namespace weightpager::window
