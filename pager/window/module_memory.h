// Chunks in the memory of the kernel module (kmod/), which shows and hides them itself, in every
// view of every process at once. The module makes engines, system calls and GPUs wait when they
// touch an absent chunk.
//
// Cost: an ioctl a step, for a run of chunks where they are hidden; nothing is copied, zeroed or
// registered (module_window.h).
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "pager/window/module_window.h"
#include "pager/window/view_memory.h"

namespace weightpager::window {

class ModuleMemory final : public ViewMemory {
 public:
  static Result<std::unique_ptr<BackingMemory>> open(const BackingOptions& options,
                                                     const BackingParts& parts);
  /// Shows a chunk in a region of `space`, and looks at the bytes.
  static Status probe(AddressSpace& space, uint64_t chunk_bytes);

  const char* name() const override { return "module"; }
  Status add_file(ShownFile& file) override;
  Result<std::unique_ptr<Region>> reserve(const ShownFile& file, const Extent& extent) override;
  void on_region_added(const ShownFile& file, const Region& region) override;
  std::byte* bytes_of(const ShownFile& file, ChunkId chunk) const override;
  fault::Outcome show(const ShownFile& file, ChunkId chunk, bool is_waited_for,
                      bool is_retry) override;
  bool hide(const ShownFile& file, ChunkId chunk, bool is_used_whole) override;
  uint32_t evict(const ShownFile& file, const Run& run) override;
  void fail_chunk(const ShownFile& file, ChunkId chunk) override;
  int touch_fd() const override { return window_->fd(); }
  std::optional<MemoryTouch> next_touch() override;
  uint64_t engine_bytes(const ProcessMemory& all, uint32_t window_chunks) const override;

 private:
  class File;
  ModuleMemory(const BackingOptions& options, const BackingParts& parts,
               std::unique_ptr<ModuleWindow> window);
  void give_back(const ShownFile& file, ChunkId chunk) override;
  void empty_slot(SlotId slot) override { window_->empty(slot); }
  static uint32_t number_of(const ShownFile& file);
  void forget(uint32_t number);

  std::unique_ptr<ModuleWindow> window_;
  std::vector<std::pair<uint32_t, const ShownFile*>> files_;  // by the module's number for them
};

}  // namespace weightpager::window
