// Memory that the engine fills while it loads, such as copies of its weights in another layout.
//
// Problem. What the engine has just written is nowhere else: to evict it costs a write, and a read
// when the engine computes with it. To evict a chunk of the file that is copied costs nothing, as
// the engine will hardly look at it again; but pins were chosen for passes over that file.
//
// Idea. While memory grows, what can be read again goes first, pinned or not. And some room is made
// before the engine asks for it, so that it goes on while the disk writes. Growth ends when the
// driver says that the load is over; a few chunks alone, as a cache of keys gets now and then, are
// no growth. If as much was written as was read of files, what was read was copied, and does not
// belong to a pass until the engine comes back to it.
//
// Cost: O(1) an event, O(N) at the end; two bits for each chunk. Only `reset` and `copied`
// allocate.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "pager/policy/chunk_order.h"

namespace weightpager::policy {

class GrowingMemory {
 public:
  /// The table has `chunks` chunks. What was seen before stays so.
  void reset(uint32_t chunks) {
    is_new_.resize(chunks);
    is_read_.resize(chunks);
  }
  /// The engine begins to fill the chunk, which it has touched for that.
  void note_new(ChunkId chunk) {
    is_new_[chunk] = true;
    is_read_[chunk] = false;
    ++grown_;
  }
  /// The engine touched a chunk of any memory.
  void note_touch(ChunkId chunk) { is_read_[chunk] = !is_new_[chunk]; }
  /// The chunk went, so from now on it is somewhere else, too.
  void note_evicted(ChunkId chunk) { is_new_[chunk] = false; }
  /// The load is over. Returns the chunks of the order that were copied, ascending.
  std::vector<ChunkId> end(const std::vector<ChunkId>& order);

  bool is_growing() const { return grown_ >= grown_min; }
  /// Whether the chunk's bytes were in memory only ever since the engine wrote them.
  bool is_new(ChunkId chunk) const { return is_new_[chunk]; }
  /// So many chunks of the window are to be free, or on their way out.
  uint32_t spare_chunks(uint32_t window_chunks) const {
    return is_growing() ? std::min(ChunkTable::leaving_max, window_chunks / 8) : 0;
  }

 private:
  static constexpr uint32_t grown_min = 8;

  std::vector<bool> is_new_;   // by chunk
  std::vector<bool> is_read_;  // by chunk: since a load was over
  uint32_t grown_ = 0;         // chunks that were filled since a load was over
};

}  // namespace weightpager::policy
