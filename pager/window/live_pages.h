// How the kernel brings the live pages of a chunk into a region, and takes them away again.
//
// Three ways. Moving (UFFDIO_MOVE, Linux 6.8) gives the region the slot's own pages: 1 µs for a
// huge page either way, nothing is copied, zeroed or freed. Copying (UFFDIO_COPY, Linux 4.11) fills
// fresh memory of the region, about 0.6 ms for 2 MiB; taking the pages away frees that memory.
// Showing (UFFDIO_CONTINUE, Linux 5.14) enters pages of shared memory into a view's page table: 6
// µs for a huge page (MADV_COLLAPSE, Linux 6.1), 150 µs for the small pages of 2 MiB.
//
// All three make a chunk appear all at once. None of them allocates in this process.
#pragma once

#include <cstddef>
#include <cstdint>

#include "pager/fault/userfaultfd.h"
#include "pager/window/region.h"

namespace weightpager::window {

/// Neighbours in a region whose bytes lie side by side, too.
struct ChunkRun {
  uint32_t index = 0;  // of the first one, in the region
  uint32_t count = 1;
};

/// Moves the slots at `slots` into the region, write-protected, and wakes the threads that wait
/// there. Unless `done`, nothing has moved. Requires chunks that are live as a whole in a region
/// that is not writable: UFFDIO_MOVE cannot let a page arrive protected, and a write between moving
/// and protecting would be lost.
fault::Outcome move_in(Region& region, ChunkRun run, std::byte* slots);
/// Moves the chunks back to `slots`. Unless `done`, nothing has moved.
fault::Outcome move_out(Region& region, ChunkRun run, std::byte* slots);

/// Copies the live pages of a chunk, write-protected, and wakes the threads that wait for them.
fault::Outcome copy_live_pages(const Region& region, uint32_t index, const std::byte* bytes);

/// Shows the live pages of a chunk that shared memory has, page by page, beside those that the view
/// shows already, and wakes the threads that wait for them.
fault::Outcome show_live_pages(const Region& region, uint32_t index);
/// The same, by one entry for the whole chunk where that is possible. (The next write would split
/// that entry: use it for chunks of which the view shows nothing yet.)
fault::Outcome show_huge_page(const Region& region, uint32_t index);

/// Frees the live pages of a chunk in this process. The pages must not have come by moving. A
/// thread that writes at that moment stands still at the protection and finds the page absent when
/// it goes on.
void drop_live_pages(const Region& region, uint32_t index);

/// Lets every thread that waits for a live page of the chunk try again.
void wake_live_pages(const Region& region, uint32_t index);

}  // namespace weightpager::window
