// Chunks in a file in memory (memory_file.h). Regions are views of that file, as many and in as
// many processes as ask. From Linux 6.1 on, showing a chunk is one step of 6 µs.
//
// The pager reads into a mapping of its own that no userfaultfd watches. Showing a chunk changes
// page tables only, of one view at a time. Giving a chunk's pages back takes them out of every view
// at once.
#pragma once

#include <memory>

#include "pager/window/memory_file.h"
#include "pager/window/view_memory.h"

namespace weightpager::window {

class SharedMemory final : public ViewMemory {
 public:
  static Result<std::unique_ptr<BackingMemory>> open(const BackingOptions& options,
                                                     const BackingParts& parts);
  /// Shows a chunk in a region of `space`, hides it again, and looks at the bytes.
  static Status probe(AddressSpace& space, uint64_t chunk_bytes);

  const char* name() const override { return "collapse"; }
  Status add_file(ShownFile& file) override;
  Result<std::unique_ptr<Region>> reserve(const ShownFile& file, const Extent& extent) override;
  bool prepare_slot(const ShownFile&, ChunkId, bool is_memory_new) override {
    return is_memory_new;
  }
  std::byte* bytes_of(const ShownFile& file, ChunkId chunk) const override;
  void finish_read(const ShownFile& file, ChunkId chunk) override;
  fault::Outcome show(const ShownFile& file, ChunkId chunk, bool is_waited_for,
                      bool is_retry) override;
  bool show_together(const ShownFile& file, const Run& run) override;
  bool hide(const ShownFile& file, ChunkId chunk, bool is_used_whole) override;
  uint32_t evict(const ShownFile& file, const Run& run) override;
  uint64_t engine_bytes(const ProcessMemory& all, uint32_t window_chunks) const override;

 private:
  SharedMemory(const BackingOptions& options, const BackingParts& parts)
      : ViewMemory(options, parts), hides_writable_(options.hides_writable) {}
  void give_back(const ShownFile& file, ChunkId chunk) override;

  const bool hides_writable_;
};

}  // namespace weightpager::window
