// How many chunks the engine's threads wait for at once.
//
// Problem. Threads that sweep a matrix side by side each work on a chunk of their own. Where fewer
// chunks can stay than there are such threads, a thread's chunk is gone before the thread has come
// to use it: each thread reads its chunk anew, over and over. How many threads an engine has is
// told nowhere.
//
// Idea. Threads that wait at the same time wait for different chunks, unless they share one, and
// then one place serves them all. As many chunks have to be in the window together as were waited
// for at once, in this pass or the one before.
//
// Cost: O(1) an event, O(N) a pass; a byte for each chunk of the table. Only `reset` allocates.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "pager/policy/chunk_order.h"

namespace weightpager::policy {

class AwaitedChunks {
 public:
  /// Nothing is waited for. What was counted stays known, as at the end of a pass: the engine has
  /// the same threads. The table has `chunks` chunks.
  void reset(uint32_t chunks) {
    waits_.assign(chunks, Wait::none);
    most_before_ = most();
    count_ = most_ = 0;
  }
  /// A thread touched the chunk, which is absent or being read.
  void note_touch(ChunkId chunk) {
    if (std::exchange(waits_[chunk], Wait::since_this_pass) != Wait::none) return;
    most_ = std::max(most_, ++count_);
  }
  /// A read of the chunk has ended.
  void note_arrival(ChunkId chunk) {
    if (std::exchange(waits_[chunk], Wait::none) != Wait::none) --count_;
  }
  /// A pass is over. What has been waited for since the pass before does not come: its read failed.
  void end_pass() {
    for (Wait& wait : waits_) {
      if (wait == Wait::since_the_last_pass) --count_;
      wait = wait == Wait::since_this_pass ? Wait::since_the_last_pass : Wait::none;
    }
    most_before_ = std::exchange(most_, count_);
  }
  /// The most that were waited for at once, in this pass or the one before.
  uint32_t most() const { return std::max(most_, most_before_); }

 private:
  enum class Wait : uint8_t { none, since_this_pass, since_the_last_pass };

  std::vector<Wait> waits_;  // by chunk
  uint32_t count_ = 0;
  uint32_t most_ = 0;
  uint32_t most_before_ = 0;
};

}  // namespace weightpager::policy
