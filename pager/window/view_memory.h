// What shared memory and the module's memory have in common: regions are views of a file, in this
// process or in a guest, and are private where the engine may write.
//
// The kernel copies a page at the first write into a private view without a message; /proc tells
// which pages are copies (page_map.h). What was written stays when the memory is given back. Slots
// are only permits to fill a chunk: memory comes when a chunk is read into it.
#pragma once

#include <memory>

#include "pager/window/backing_memory.h"
#include "pager/window/page_map.h"

namespace weightpager::window {

class ViewMemory : public BackingMemory {
 public:
  Status check_writable(const std::string& file_name) const override;
  bool needs_staging(bool) const override { return false; }
  bool tells_writes() const override { return false; }
  bool answer_shown(Region& region, uint32_t index, uintptr_t address) override;
  uint32_t evict(const ShownFile& file, const Run& run) override;
  void seal(const Region& region, std::byte* address, uint64_t length_bytes) override;
  bool discard_written(Region& region, uint32_t index, uint32_t first_page,
                       uint32_t count) override;
  void for_each_written_run(const Region& region, uint32_t index, const Act& act) override;

 protected:
  using BackingMemory::BackingMemory;
  /// Notes that the chunk's pages are gone from every view.
  static void note_gone(const ShownFile& file, ChunkId chunk);
  const PageMap& page_map() const { return page_map_; }

 private:
  PageMap page_map_;
};

}  // namespace weightpager::window
