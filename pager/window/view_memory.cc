#include "pager/window/view_memory.h"

#include "pager/window/live_pages.h"

namespace weightpager::window {

using fault::Outcome;

Status ViewMemory::check_writable(const std::string& file_name) const {
  if (page_map_.is_open()) return {};
  return fail(file_name + ": mapped writable, and it cannot be told here what is written",
              "mount /proc");
}

// A view can lose pages of a chunk that it shows: by MADV_DONTNEED, or by the first write, which
// splits a huge page's entry.
bool ViewMemory::answer_shown(Region& region, uint32_t index, uintptr_t) {
  if (show_live_pages(region, index) == Outcome::done) return true;
  if (!region.space().is_own()) {
    region.space().line().hang_up();
    return true;
  }
  // At worst there is no memory for page tables: the thread tries again.
  wake_live_pages(region, index);
  return true;
}

uint32_t ViewMemory::evict(const ShownFile& file, const Run& run) {
  for (uint32_t i = 0; i < run.count; ++i) release(file, run.first + i);
  return run.count;
}

void ViewMemory::note_gone(const ShownFile& file, ChunkId chunk) {
  file.for_each_view(chunk,
                     [](Region& region, uint32_t index) { region.notes(index).is_placed = false; });
}

void ViewMemory::seal(const Region& region, std::byte* address, uint64_t length_bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(address);
  // A guest wakes its threads itself, when it has sealed the range.
  if (!region.space().is_own()) return region.space().line().seal(begin, length_bytes);
  seal_unwritten(region, begin, begin + length_bytes, page_map_);
}

bool ViewMemory::discard_written(Region& region, uint32_t index, uint32_t first_page,
                                 uint32_t count) {
  const auto chunk = reinterpret_cast<uintptr_t>(region.chunk_address(index));
  const uintptr_t begin = chunk + uint64_t{first_page} * os_page_bytes;
  give_up_written(region, begin, begin + uint64_t{count} * os_page_bytes);
  return false;
}

void ViewMemory::for_each_written_run(const Region& region, uint32_t index, const Act& act) {
  let_children_inherit_written(region, index, page_map_, act);
}

}  // namespace weightpager::window
