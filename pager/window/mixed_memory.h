// Files in views, and the engine's own memory in slots: two kinds of backing memory in one window.
//
// Problem. What the engine writes in its own memory can be taken out of a region only by moving
// pages (moved_memory.h). But files that are mapped writable are served best as views
// (view_memory.h), and a window is for all of them together.
//
// Idea. Spilled regions are the moved memory's, all others the views'. Both use the slots of one
// chunk table. A slot is a permit for one chunk. In the hands of a view the slot's own memory is
// not there, because the memory is the file's; in those of a spilled chunk it is. A slot that goes
// from one kind to the other loses its memory, or gets it.
//
// Cost: up to 0.3 ms for 2 MiB where a slot gets memory, and some 20 µs where it loses memory; a
// pass over one kind of chunk changes no slot. Memory that the machine has not used before takes
// up to 5 ms, since a virtual machine's host gives it page by page. For a slot of 2 MiB another
// thread waits for that memory: the thread that writes the chunk's bytes.
#pragma once

#include <memory>
#include <vector>

#include "pager/window/backing_memory.h"
#include "pager/window/moved_memory.h"

namespace weightpager::window {

class MixedMemory final : public BackingMemory {
 public:
  /// `views`: memory whose regions are views.
  static Result<std::unique_ptr<BackingMemory>> open(std::unique_ptr<BackingMemory> views,
                                                     const BackingOptions& options,
                                                     const BackingParts& parts);

  const char* name() const override { return views_->name(); }
  Status check_writable(const std::string& file_name) const override;
  Status add_file(ShownFile& file) override { return views_->add_file(file); }
  Result<std::unique_ptr<Region>> reserve(const ShownFile& file, const Extent& extent) override;
  void on_region_added(const ShownFile& file, const Region& region) override;

  bool needs_staging(bool) const override { return false; }
  bool prepare_slot(const ShownFile& file, ChunkId chunk, bool is_memory_new) override;
  void get_memory(const ShownFile& file, ChunkId chunk) override;
  std::byte* bytes_of(const ShownFile& file, ChunkId chunk) const override;
  void finish_read(const ShownFile& file, ChunkId chunk) override;

  fault::Outcome show(const ShownFile& file, ChunkId chunk, bool is_waited_for,
                      bool is_retry) override;
  bool show_together(const ShownFile& file, const Run& run) override;
  bool tells_writes() const override { return views_->tells_writes(); }
  bool answer_shown(Region& region, uint32_t index, uintptr_t address) override;

  bool can_hide() const override { return views_->can_hide(); }
  bool hide(const ShownFile& file, ChunkId chunk, bool is_used_whole) override;
  void flush_hidden() override;
  void leave_region(const ShownFile& file, Region& region, uint32_t index) override;
  uint32_t evict(const ShownFile& file, const Run& run) override;
  bool can_spill() const override { return true; }

  void fail_chunk(const ShownFile& file, ChunkId chunk) override;
  void seal(const Region& region, std::byte* address, uint64_t length_bytes) override;
  bool discard_written(Region& region, uint32_t index, uint32_t first_page,
                       uint32_t count) override;
  void for_each_written_run(const Region& region, uint32_t index, const Act& act) override;

  int touch_fd() const override { return views_->touch_fd(); }
  std::optional<MemoryTouch> next_touch() override { return views_->next_touch(); }
  uint64_t engine_bytes(const ProcessMemory& all, uint32_t window_chunks) const override;

 private:
  MixedMemory(std::unique_ptr<BackingMemory> views, std::unique_ptr<MovedMemory> moved,
              const BackingOptions& options, const BackingParts& parts);
  void give_back(const ShownFile& file, ChunkId chunk) override;
  void empty_slot(SlotId slot) override;
  void drop_coming_memory(ChunkId chunk);
  BackingMemory& kind_of(const ShownFile& file) const;
  BackingMemory& kind_of(const Region& region) const;

  std::unique_ptr<BackingMemory> views_;
  std::unique_ptr<MovedMemory> moved_;
  /// Whether a slot has memory of its own. `coming`: it gets it when its chunk's bytes come.
  enum class OwnMemory : uint8_t { none, coming, there };
  std::vector<OwnMemory> memory_;  // by slot
  uint32_t slots_with_memory_ = 0;
};

}  // namespace weightpager::window
