// Chunks that the engine does not need again in this pass: the first to go when room is needed.
//
// A pass comes to them again in the order in which it left them. So the chunk that was consumed
// last is needed again last, and goes first: last in, first out.
//
// Cost: O(1) to add a chunk; `take` passes over chunks that are busy, which the caller keeps few.
// 5 bytes a chunk; only `reset` allocates.
#pragma once

#include <cstddef>
#include <vector>

#include "pager/policy/chunk_order.h"

namespace weightpager::policy {

class ConsumedChunks {
 public:
  /// Empties the list. The table has `chunks` chunks.
  void reset(uint32_t chunks) {
    chunks_.clear();
    chunks_.reserve(chunks);
    is_listed_.assign(chunks, false);
  }
  void clear() {
    for (ChunkId chunk : chunks_) is_listed_[chunk] = false;
    chunks_.clear();
  }

  bool contains(ChunkId chunk) const { return is_listed_[chunk]; }
  void add(ChunkId chunk) {
    if (is_listed_[chunk]) return;
    is_listed_[chunk] = true;
    chunks_.push_back(chunk);
  }

  /// Takes chunks out, the last one first, until one of them may go, and returns that one, or
  /// no_chunk. Chunks that are busy stay listed.
  template <typename IsBusy, typename MayGo>
  ChunkId take(IsBusy is_busy, MayGo may_go) {
    for (size_t i = chunks_.size(); i-- > 0;) {
      const ChunkId chunk = chunks_[i];
      if (is_busy(chunk)) continue;
      chunks_[i] = chunks_.back();
      chunks_.pop_back();
      is_listed_[chunk] = false;
      if (may_go(chunk)) return chunk;
    }
    return window::no_chunk;
  }

 private:
  std::vector<ChunkId> chunks_;
  std::vector<bool> is_listed_;  // by chunk
};

}  // namespace weightpager::policy
