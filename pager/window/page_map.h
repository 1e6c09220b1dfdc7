// Which pages of this process are its own copies: what it wrote into private views of shared
// memory.
//
// The kernel copies such a page at the first write and tells nobody; /proc/self/pagemap shows it as
// a page that belongs to no file (Documentation/admin-guide/mm/pagemap.rst, bit 61). Cost: 8 bytes
// read per page looked at.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "pager/base/owned_fd.h"
#include "pager/window/region.h"

namespace weightpager::window {

class PageMap {
 public:
  /// Opens the process's page map, in the descriptor table of the calling thread.
  PageMap();

  /// False: there is no /proc here, and nothing can be told.
  bool is_open() const { return file_.is_open(); }

  /// Calls `act(address, length_bytes)` for each run of pages of the range that the process wrote,
  /// or for each run of pages that it did not write.
  using Act = std::function<void(std::byte* address, uint64_t length_bytes)>;
  void for_each_written_run(std::byte* address, uint64_t length_bytes, const Act& act) const;
  void for_each_unwritten_run(std::byte* address, uint64_t length_bytes, const Act& act) const;
  /// Sets an entry of `pages` for each page of the range: 1 if the page is there, else 0, as
  /// mincore does.
  void residency(std::byte* address, uint64_t length_bytes, unsigned char* pages) const;

 private:
  void for_each_run(std::byte* address, uint64_t length_bytes, bool is_written,
                    const Act& act) const;

  OwnedFd file_;
};

/// Lets child processes inherit those pages of a view's chunk that the process wrote, and no
/// others. Calls `act(address, length_bytes)` for each run of them.
void let_children_inherit_written(const Region& region, uint32_t index, const PageMap& page_map,
                                  const PageMap::Act& act);

/// Seals the live pages of a region in the range, except those that the process wrote, and wakes
/// the threads that wait there.
void seal_unwritten(const Region& region, uintptr_t begin, uintptr_t end, const PageMap& page_map);

/// Takes the live pages of a chunk out of a writable view, but those that the process wrote. A
/// thread that writes at that moment stands still meanwhile. Returns false, and nothing is taken
/// out, where the kernel cannot hold up writes. The memory has to have the whole chunk.
bool take_out_unwritten(const Region& region, uint32_t index, const PageMap& page_map);

/// What the process wrote in the range of a view is gone, as with MADV_DONTNEED: live pages show
/// the file again when they are touched, and sealed ones raise SIGBUS.
void give_up_written(const Region& region, uintptr_t begin, uintptr_t end);

}  // namespace weightpager::window
