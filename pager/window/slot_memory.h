// Backing memory of this process alone: slots (slot_pool.h), from which chunks get into the one
// region that shows them.
//
// A chunk is read into a slot. Copied memory leaves it there and fills fresh pages of the region;
// the slot is free again. Moved memory (moved_memory.h) gives the region the slot's own pages,
// where it can, and copies elsewhere: into edges, which are no whole chunk, and into writable
// regions.
//
// Getting memory costs more than reading a chunk, so slots are made ahead by the pool's threads,
// and no thread waits for more than the next few.
#pragma once

#include <memory>

#include "pager/window/backing_memory.h"
#include "pager/window/slot_pool.h"

namespace weightpager::window {

/// What moved and copied memory have in common.
class SlotMemory : public BackingMemory {
 public:
  Status check_writable(const std::string& file_name) const override;
  Result<std::unique_ptr<Region>> reserve(const ShownFile& file, const Extent& extent) override;

  uint32_t supply_slots(uint32_t window_chunks, bool is_in_use) override;
  uint32_t ask_for_slots(uint32_t window_chunks) override;
  bool get_all_memory(uint32_t window_chunks) override;
  std::byte* bytes_of(const ShownFile& file, ChunkId chunk) const override;

  fault::Outcome show(const ShownFile& file, ChunkId chunk, bool is_waited_for,
                      bool is_retry) override;
  bool answer_shown(Region& region, uint32_t index, uintptr_t address) override;
  bool hide(const ShownFile& file, ChunkId chunk, bool is_used_whole) override;
  uint32_t evict(const ShownFile& file, const Run& run) override;

  void seal(const Region& region, std::byte* address, uint64_t length_bytes) override;
  bool discard_written(Region& region, uint32_t index, uint32_t first_page,
                       uint32_t count) override;
  void for_each_written_run(const Region& region, uint32_t index, const Act& act) override;
  uint64_t engine_bytes(const ProcessMemory& all, uint32_t window_chunks) const override;

 protected:
  /// `pool` comes from make_pool(), which reserves slots for the largest window or, where address
  /// space is short, for the window at the start: it cannot grow then.
  SlotMemory(const BackingOptions& options, const BackingParts& parts,
             std::unique_ptr<SlotPool> pool);
  static Result<std::unique_ptr<SlotPool>> make_pool(const BackingOptions& options);

  /// Whether the slot's own memory goes into the region, so that no other region can show the
  /// chunk.
  virtual bool moves_into(const Region&, uint32_t) const { return false; }
  /// The slots have got memory and are about to be read into.
  virtual void on_slots_made(SlotId, uint32_t) {}
  /// Gives an emptied slot memory again. Returns false if there is none now.
  virtual bool refill_slot(SlotId slot);
  void empty_slot(SlotId slot) override;

  /// Takes the chunk out of every region. If it has a slot, its bytes are then there. Returns false
  /// if that is not possible now; the chunk is mapped as before.
  bool take_out(const ShownFile& file, ChunkId chunk);

  std::unique_ptr<SlotPool> pool_;

 private:
  fault::Outcome place(Region& region, uint32_t index, std::byte* bytes) const;
  fault::Outcome place_everywhere(const ShownFile& file, ChunkId chunk, bool& keeps_slot) const;
  fault::Outcome show_elsewhere(const ShownFile& file, ChunkId chunk);
  Region* copied_whole_in(const ShownFile& file, ChunkId chunk) const;
  void refill_slots(uint32_t slots_max);
};

class CopiedMemory final : public SlotMemory {
 public:
  static Result<std::unique_ptr<BackingMemory>> open(const BackingOptions& options,
                                                     const BackingParts& parts);
  /// Copies a chunk into a region of `space` and out again, and looks at the bytes.
  static Status probe(AddressSpace& space, uint64_t chunk_bytes);

  const char* name() const override { return "copy"; }
  bool needs_staging(bool) const override { return true; }
  bool can_hide() const override { return false; }

 private:
  using SlotMemory::SlotMemory;
};

}  // namespace weightpager::window
