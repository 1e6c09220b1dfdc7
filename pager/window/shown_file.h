// The chunks of one model file, and the regions that show them.
//
// Problem. Engines map one file more than once (PyTorch: the header, then everything; ONNX Runtime:
// each tensor by itself).
//
// Idea. All regions of a file show one set of chunks, so that each byte is read once and counts
// once. A chunk of slot memory lies as a whole in at most one region at a time, where it can be
// moved without copying. A region that shows only a part of a chunk (an edge) gets a copy of its
// pages; all copies together are no larger than the chunk, except for pages that two regions share.
// With shared memory, any number of regions show the same pages.
//
// Bookkeeping only; the pager's thread alone uses it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "pager/base/units.h"
#include "pager/window/chunk_table.h"
#include "pager/window/region.h"

namespace weightpager::window {

/// What a backing memory (backing_memory.h) has for one file, where regions are views of that
/// memory.
class FileBacking {
 public:
  FileBacking() = default;
  virtual ~FileBacking() = default;
  FileBacking(const FileBacking&) = delete;
  FileBacking& operator=(const FileBacking&) = delete;

  /// The descriptor that a guest maps to show the file; it allows reading only, and stays this
  /// object's.
  virtual int view_fd() const = 0;
  /// Whether views show chunks and tell of touches by themselves, so that no userfaultfd watches
  /// them.
  virtual bool shows_by_itself() const { return false; }
};

struct ShownFile {
  uint64_t chunk_bytes = chunk_bytes_max;
  uint64_t size_bytes = 0;
  ChunkId first_chunk = 0;
  uint32_t chunks = 0;  // of the whole file
  std::vector<std::unique_ptr<Region>> regions;
  Region* favoured = nullptr;            // the region that was touched last, or the newest
  std::unique_ptr<FileBacking> backing;  // nullptr: chunks lie in the window's slots

  uint64_t offset_of(ChunkId chunk) const { return uint64_t{chunk - first_chunk} * chunk_bytes; }
  /// How many bytes of the file a chunk has: chunk_bytes, except for the file's last chunk.
  uint64_t bytes_of(ChunkId chunk) const;

  ChunkId chunk_of(const Region& region, uint32_t index) const {
    return first_chunk + region.first_file_chunk() + index;
  }

  /// The chunk's index in the region; at least region.chunks() if the chunk is not in the region.
  uint32_t index_in(const Region& region, ChunkId chunk) const {
    return chunk - first_chunk - region.first_file_chunk();
  }

  /// Calls `act(region, index)` for each region that shows live pages of the chunk.
  template <typename Act>
  void for_each_view(ChunkId chunk, Act act) const {
    for (const auto& region : regions) {
      const uint32_t index = index_in(*region, chunk);
      if (index < region->chunks() && region->is_live(index)) act(*region, index);
    }
  }
  /// Whether any region shows live pages of the chunk.
  bool is_shown(ChunkId chunk) const;
  /// Whether the chunk's pages are there in any region.
  bool is_placed(ChunkId chunk) const;

  /// The region in which the chunk shall lie as a whole: where a thread waits for it, else the
  /// favoured one, else any; nullptr if every region that shows the chunk shows only a part.
  Region* home_of(ChunkId chunk) const;
};

}  // namespace weightpager::window
