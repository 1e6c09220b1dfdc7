// Memory that the engine fills while it loads, such as copies of its weights in another layout.
//
// Problem. What the engine has just written is nowhere else: to evict it costs a write, and a read
// when the engine computes with it. To evict a chunk of the file that is copied costs nothing, as
// the engine will hardly look at it again; but pins were chosen for passes over that file.
//
// Idea. While memory grows, what can be read again goes first, pinned or not. And some room is made
// before the engine asks for it, so that the engine goes on while the disk writes. Growth ends when
// the driver says that the load is over, or when 256 touches in a row filled nothing new. A few
// chunks alone, as a cache of keys gets now and then, are no growth. Neither is memory that the
// engine fills once more. What was filled, went and came back is in use, and no file. If as much
// was filled as was read of files, what was read was copied, and a pass does not have it until the
// engine comes back to it (left_out.h).
//
// Cost: O(1) an event, O(N) at the end; some 5 bytes for each chunk. Only `reset` and `end`
// allocate.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "pager/policy/chunk_order.h"
#include "pager/policy/chunk_queue.h"

namespace weightpager::policy {

class GrowingMemory {
 public:
  /// The table has `chunks` chunks. What was seen before stays so, but for chunks of files: their
  /// numbers may have been those of other memory.
  void reset(uint32_t chunks, const std::vector<bool>& is_of_file = {});
  /// The engine begins to fill the chunk, which it has touched for that.
  void note_new(ChunkId chunk);
  /// The engine touched a chunk of any memory.
  void note_touch(ChunkId chunk);
  /// The chunk went, so from now on it is somewhere else, too.
  void note_evicted(ChunkId chunk) { is_new_[chunk] = false; }
  /// The load is over. Returns the chunks of the order that were copied.
  std::vector<ChunkId> end(const ChunkOrder& order);

  bool is_growing() const { return grown_ >= grown_min && touches_since_ < touches_max; }
  /// Whether a good part of the order was filled since a load was over: the engine was loading, and
  /// not only making room for a longer prompt.
  bool has_filled_much(const ChunkOrder& order) const {
    return grown_ >= grown_min && grown_ >= order.cyclic.size() / 4;
  }
  /// Whether the chunk's bytes were in memory only ever since the engine wrote them.
  bool is_new(ChunkId chunk) const { return is_new_[chunk]; }
  /// So many chunks of the window are to be free, or on their way out.
  uint32_t spare_chunks(uint32_t window_chunks) const {
    return is_growing() ? std::min(ChunkTable::leaving_max, window_chunks / 8) : 0;
  }
  /// The chunk that was touched longest ago of those that can be read again and for which
  /// `can_go(chunk)` is true, or no_chunk. Chunks for which `is_resident(chunk)` is false are
  /// forgotten.
  template <typename IsResident, typename CanGo>
  ChunkId take_oldest_of_file(IsResident is_resident, CanGo can_go);

 private:
  static constexpr uint32_t grown_min = 8;
  // An engine that copies fills a chunk after every few touches.
  static constexpr uint32_t touches_max = 256;

  std::vector<bool> is_new_;        // by chunk
  std::vector<bool> was_ever_new_;  // by chunk
  std::vector<bool> is_read_;       // by chunk: since a load was over
  ChunkQueue of_file_;              // in the order of their touches
  uint32_t grown_ = 0;              // chunks that were filled since a load was over
  uint32_t touches_since_ = 0;      // … the last of these was
};

// Only chunks that are in use or will be soon are passed over, and those are few, so this is O(1)
// amortised.
template <typename IsResident, typename CanGo>
ChunkId GrowingMemory::take_oldest_of_file(IsResident is_resident, CanGo can_go) {
  for (size_t left = of_file_.count(); left > 0; --left) {
    const ChunkId chunk = of_file_.front();
    of_file_.pop();
    if (is_new_[chunk] || !is_resident(chunk)) continue;
    if (can_go(chunk)) return chunk;
    of_file_.push(chunk);
  }
  return window::no_chunk;
}

}  // namespace weightpager::policy
