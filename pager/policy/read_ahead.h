// Chunks that were read ahead and that the engine has not passed yet: how many they may be, and
// what became of them.
//
// Reading ahead pays only while the engine follows the order. So it begins with a few chunks where
// the engine was found, and the limit doubles each time the engine goes on as expected.
//
// Cost: O(1) an event, O(N) to begin anew; 2 bits a chunk. Only `reset` allocates.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "pager/policy/chunk_order.h"

namespace weightpager::policy {

class ReadAhead {
 public:
  /// Forgets all chunks. The table has `chunks` chunks.
  void reset(uint32_t chunks) {
    is_ahead_.assign(chunks, false);
    is_awaited_.assign(chunks, false);
    count_ = 0;
  }
  /// What was read ahead no longer counts.
  void forget() {
    std::fill(is_ahead_.begin(), is_ahead_.end(), false);
    count_ = 0;
  }
  void set_max(uint32_t chunks) { count_max_ = chunks; }
  /// The engine follows the order: the limit doubles, up to `chunks_max`.
  void reach_further(uint32_t chunks_max) { count_max_ = std::min(count_max_ * 2, chunks_max); }

  uint32_t count() const { return count_; }
  bool is_full() const { return count_ >= count_max_; }
  bool contains(ChunkId chunk) const { return is_ahead_[chunk]; }

  /// The chunk is about to be read ahead.
  void note_read(ChunkId chunk) {
    is_ahead_[chunk] = true;
    is_awaited_[chunk] = false;
    ++count_;
  }
  /// The engine came to the chunk while it was being read.
  void note_wait(ChunkId chunk) { is_awaited_[chunk] = true; }
  /// The engine has passed the chunk. Returns whether it had been read ahead in time.
  bool note_passed(ChunkId chunk, bool is_reading) {
    return take_out(chunk) && !is_awaited_[chunk] && !is_reading;
  }
  /// Returns whether the chunk had been read ahead, in vain.
  bool note_evicted(ChunkId chunk) { return take_out(chunk); }

 private:
  bool take_out(ChunkId chunk) {
    if (!is_ahead_[chunk]) return false;
    is_ahead_[chunk] = false;
    --count_;
    return true;
  }

  std::vector<bool> is_ahead_;    // by chunk
  std::vector<bool> is_awaited_;  // by chunk
  uint32_t count_ = 0;
  uint32_t count_max_ = 0;
};

}  // namespace weightpager::policy
