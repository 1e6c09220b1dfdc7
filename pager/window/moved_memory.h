// Slots whose own pages are moved into the region that shows the chunk (UFFDIO_MOVE, Linux 6.8):
// about 1 µs for 2 MiB either way, and the engine gets huge pages.
//
// Chunks smaller than a huge page consist of small pages, which the kernel moves one by one. To
// notice the next use of such a chunk, one of its pages is taken away instead of all (tripwires.h).
#pragma once

#include <memory>
#include <optional>

#include "pager/window/slot_memory.h"
#include "pager/window/tripwires.h"

namespace weightpager::window {

class MovedMemory final : public SlotMemory {
 public:
  static Result<std::unique_ptr<BackingMemory>> open(const BackingOptions& options,
                                                     const BackingParts& parts);
  /// The same for the caller who gives slots their memory one by one: for mixed_memory.h.
  static Result<std::unique_ptr<MovedMemory>> open_empty(const BackingOptions& options,
                                                         const BackingParts& parts);
  /// Moves a chunk into a region of `space` and out again, and looks at the bytes.
  static Status probe(AddressSpace& space, uint64_t chunk_bytes);

  const char* name() const override { return "move"; }
  bool can_spill() const override { return true; }
  bool needs_staging(bool is_any_region_writable) const override { return is_any_region_writable; }

  fault::Outcome show(const ShownFile& file, ChunkId chunk, bool is_waited_for,
                      bool is_retry) override;
  bool show_together(const ShownFile& file, const Run& run) override;
  bool answer_shown(Region& region, uint32_t index, uintptr_t address) override;
  bool hide(const ShownFile& file, ChunkId chunk, bool is_used_whole) override;
  void flush_hidden() override;
  void leave_region(const ShownFile& file, Region& region, uint32_t index) override;
  uint32_t evict(const ShownFile& file, const Run& run) override;

  /// Gives a slot, of memory that was opened empty, its memory.
  void fill_slot(SlotId slot);
  /// The slot, of memory that was opened empty, is as large as a huge page, and got memory when
  /// bytes were written to all of it.
  void take_filled_slot(SlotId slot) { on_slots_made(slot, 1); }
  /// The same slot is given up before that.
  void drop_memory(SlotId slot) { pool_->empty(slot); }
  void empty_slot(SlotId slot) override;

 private:
  MovedMemory(const BackingOptions& options, const BackingParts& parts,
              std::unique_ptr<SlotPool> pool);
  bool moves_into(const Region& region, uint32_t index) const override;
  void on_slots_made(SlotId first, uint32_t count) override;
  bool refill_slot(SlotId slot) override;

  Region* moves_to(const ShownFile& file, ChunkId chunk) const;
  uint32_t evict_together(const ShownFile& file, const Run& run);
  Region* tripped_in(const ShownFile& file, ChunkId chunk) const;
  bool take_tripwire_back(const ShownFile& file, ChunkId chunk);

  std::optional<Tripwires> tripwires_;  // where chunks are small
};

}  // namespace weightpager::window
