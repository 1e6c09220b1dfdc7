// A model file that is being served: its chunks, and the regions that show them.
//
// Engines map one file more than once (PyTorch: the header, then everything; ONNX Runtime: each
// tensor by itself). All these regions show one set of chunks, so that each byte is read once and
// counts once. A chunk lies as a whole in at most one region at a time, where it can be moved
// without copying; regions that show only a part of it (edges) each get a copy of their pages,
// which together make no more than the chunk but for pages that two of them share. Of shared memory
// any number of regions show the same pages.
//
// A file that is changed while it is served is served anew, as another one, to who maps it from
// then on: what was read before the change stays among those who mapped it before.
//
// Bookkeeping only; the pager's thread alone uses it.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "pager/base/units.h"
#include "pager/io/model_file.h"
#include "pager/lessons/kept_lesson.h"
#include "pager/served_layers.h"
#include "pager/window/chunk_table.h"
#include "pager/window/region.h"
#include "pager/window/shared_memory.h"

namespace weightpager {

struct ServedFile {
  io::ModelFile file;
  uint64_t chunk_bytes = chunk_bytes_max;
  std::string name;  // for messages
  std::shared_ptr<ServedLayers> layers;
  lessons::TaughtFile taught;  // what lessons know it by
  window::ChunkId first_chunk = 0;
  uint32_t chunks = 0;  // of the whole file
  std::vector<std::unique_ptr<window::Region>> regions;
  window::Region* favoured = nullptr;            // the region that was touched last, or the newest
  std::unique_ptr<window::SharedMemory> memory;  // nullptr: chunks lie in the window's slots
  /// Served to guests that come and go: chunks stay while nobody shows them.
  bool is_kept = false;
  io::FileIdentity seen;  // when it was looked at last
  /// The file was changed since it was opened: whoever maps it now gets it served anew.
  bool has_changed = false;
  bool is_written = false;  // its bytes, not only its names, rights or times
  bool is_change_told = false;
  /// Chunks that were read before the change shall go.
  bool has_stale_chunks = false;

  /// Whether all that was read of it is what the file has, looked at as `now`.
  bool is_still(const io::FileIdentity& now) const {
    return !has_changed && file.identity().holds_until(now);
  }

  uint64_t offset_of(window::ChunkId chunk) const {
    return uint64_t{chunk - first_chunk} * chunk_bytes;
  }
  /// File bytes in a chunk: all of it but for the file's last one.
  uint64_t bytes_of(window::ChunkId chunk) const;

  window::ChunkId chunk_of(const window::Region& region, uint32_t index) const {
    return first_chunk + region.first_file_chunk() + index;
  }

  /// Where in the region the chunk is; no less than region.chunks() if it is not in it.
  uint32_t index_in(const window::Region& region, window::ChunkId chunk) const {
    return chunk - first_chunk - region.first_file_chunk();
  }

  /// Calls `act(region, index)` for each region that shows live pages of the chunk.
  template <typename Act>
  void for_each_view(window::ChunkId chunk, Act act) const {
    for (const auto& region : regions) {
      const uint32_t index = index_in(*region, chunk);
      if (index < region->chunks() && region->is_live(index)) act(*region, index);
    }
  }
  bool is_shown(window::ChunkId chunk) const;
  bool is_placed(window::ChunkId chunk) const;

  /// The region in which the chunk shall lie as a whole: where a thread waits for it, else the
  /// favoured one, else any; nullptr if all that show it show a part.
  window::Region* home_of(window::ChunkId chunk) const;
};

}  // namespace weightpager
