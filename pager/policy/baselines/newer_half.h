// Which chunks were touched lately, where touches of mapped chunks are not seen.
//
// Only the newer half of the window is mapped; the older half is hidden. A touch of a hidden chunk
// costs microseconds and makes the chunk new again. (VAX/VMS did so because its processor had no
// referenced bit.) Cost: O(1) an event, 12 bytes a chunk.
#pragma once

#include <algorithm>
#include <cstdint>

#include "pager/policy/baselines/chunk_list.h"

namespace weightpager::policy {

class NewerHalf {
 public:
  /// Forgets all touches. The table has `chunks` chunks.
  void reset(uint32_t chunks) { mapped_.reset(chunks); }
  void note_touch(window::ChunkId chunk) { mapped_.put_front(chunk); }

  /// The chunk that has become old, or no_chunk; each one once.
  window::ChunkId next_hold(const window::ChunkTable& table) {
    // While there is room, nothing is evicted, so nothing has to count as old.
    if (table.resident() < table.resident_max()) return window::no_chunk;
    if (mapped_.size() <= std::max(table.resident_max() / 2, 1u)) return window::no_chunk;
    const window::ChunkId oldest = mapped_.back();
    mapped_.erase(oldest);
    return oldest;
  }

 private:
  ChunkList mapped_;  // oldest last
};

}  // namespace weightpager::policy
