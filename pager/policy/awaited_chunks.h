// How many chunks the engine's threads wait for at once.
//
// Problem. Threads that sweep a matrix side by side each work on a chunk of their own. Where fewer
// chunks can stay than there are such threads, a thread's chunk is gone before the thread has come
// to use it: each thread reads its chunk anew, over and over. How many threads an engine has is
// told nowhere.
//
// Idea. Threads that wait at the same time wait for different chunks, unless they share one, and
// then one place serves them all. So the most chunks that were waited for at once, in this pass or
// the one before, is how many have to be in the window together.
//
// Cost: O(1) an event; a bit for each chunk of the table. Only `reset` allocates.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "pager/policy/chunk_order.h"

namespace weightpager::policy {

class AwaitedChunks {
 public:
  /// Nothing is waited for. The table has `chunks` chunks.
  void reset(uint32_t chunks) {
    is_awaited_.assign(chunks, false);
    count_ = most_ = most_before_ = 0;
  }
  /// A thread touched the chunk, which is absent or being read.
  void note_touch(ChunkId chunk) {
    if (is_awaited_[chunk]) return;
    is_awaited_[chunk] = true;
    most_ = std::max(most_, ++count_);
  }
  /// A read of the chunk has ended.
  void note_arrival(ChunkId chunk) {
    if (!is_awaited_[chunk]) return;
    is_awaited_[chunk] = false;
    --count_;
  }
  /// A pass is over.
  void end_pass() {
    most_before_ = most_;
    most_ = count_;
  }
  /// The most that were waited for at once, in this pass or the one before.
  uint32_t most() const { return std::max(most_, most_before_); }

 private:
  std::vector<bool> is_awaited_;  // by chunk
  uint32_t count_ = 0;
  uint32_t most_ = 0;
  uint32_t most_before_ = 0;
};

}  // namespace weightpager::policy
