#include "pager/window/backing_memory.h"

#include <utility>

#include "pager/base/assert.h"
#include "pager/window/mixed_memory.h"
#include "pager/window/module_memory.h"
#include "pager/window/moved_memory.h"
#include "pager/window/shared_memory.h"
#include "pager/window/slot_memory.h"

namespace weightpager::window {

BackingMemory::BackingMemory(const BackingOptions& options, const BackingParts& parts)
    : chunk_bytes_(options.chunk_bytes),
      own_(parts.own),
      table_(parts.table),
      doorbell_(parts.doorbell),
      slots_max_(options.slots_max) {
  emptied_slots_.reserve(options.slots_max);
}

uint32_t BackingMemory::supply_slots(uint32_t window_chunks, bool) {
  return ask_for_slots(window_chunks);
}

// Slots are only permits here: memory comes when a chunk is read into it.
uint32_t BackingMemory::ask_for_slots(uint32_t window_chunks) {
  uint32_t in_use = table_.resident() + table_.free_slots();
  for (; in_use < window_chunks; ++in_use) {
    if (emptied_slots_.empty()) {
      table_.add_slot(slots_added_++);
    } else {
      table_.add_slot(emptied_slots_.back());
      emptied_slots_.pop_back();
    }
  }
  return in_use;
}

// A chunk that was copied into a region leaves its slot behind, so there may be memory beyond the
// window. It goes back.
void BackingMemory::trim_slots(uint32_t window_chunks) {
  while (table_.free_slots() > 0 && table_.resident() + table_.free_slots() > window_chunks) {
    const SlotId slot = table_.remove_slot();
    emptied_slots_.push_back(slot);
    empty_slot(slot);
  }
}

void BackingMemory::release(const ShownFile& file, ChunkId chunk) {
  give_back(file, chunk);
  table_.release(chunk);
}

void BackingMemory::fail_chunk(const ShownFile& file, ChunkId chunk) {
  if (table_.state(chunk) == ChunkState::failed) return;
  if (table_.state(chunk) == ChunkState::mapped) table_.hide(chunk);
  give_back(file, chunk);
  table_.fail(chunk);
}

Result<std::unique_ptr<BackingMemory>> open_backing_memory(std::string_view name,
                                                           const BackingOptions& options,
                                                           const BackingParts& parts) {
  if (name == "move") return MovedMemory::open(options, parts);
  if (name == "copy") return CopiedMemory::open(options, parts);
  WP_ASSERT(name == "collapse" || name == "module");
  auto views =
      name == "collapse" ? SharedMemory::open(options, parts) : ModuleMemory::open(options, parts);
  if (!views || !options.spills) return views;
  return MixedMemory::open(std::move(*views), options, parts);
}

}  // namespace weightpager::window
