// A queue of chunks in preallocated memory: first in, first out, each chunk at most once.
#pragma once

#include <cstddef>
#include <vector>

#include "pager/window/chunk_table.h"

namespace weightpager::policy {

/// The queue holds a chunk at most once, so it cannot overflow. Every operation but `reset` is O(1)
/// and allocates nothing.
class ChunkQueue {
 public:
  /// Empties the queue and makes room for chunks 0 to `chunks` - 1.
  void reset(uint32_t chunks) {
    items_.assign(chunks, window::no_chunk);
    is_queued_.assign(chunks, false);
    head_ = count_ = 0;
  }

  bool is_empty() const { return count_ == 0; }
  size_t count() const { return count_; }
  window::ChunkId front() const { return items_[head_]; }

  void push(window::ChunkId chunk) {
    if (is_queued_[chunk]) return;
    is_queued_[chunk] = true;
    items_[(head_ + count_++) % items_.size()] = chunk;
  }

  void pop() {
    is_queued_[items_[head_]] = false;
    head_ = (head_ + 1) % items_.size();
    --count_;
  }

 private:
  std::vector<window::ChunkId> items_;
  std::vector<bool> is_queued_;
  size_t head_ = 0;
  size_t count_ = 0;
};

/// Returns the first chunk of the queue that is still absent, or no_chunk; chunks before it leave
/// the queue.
inline window::ChunkId first_absent(ChunkQueue& queue, const window::ChunkTable& table) {
  while (!queue.is_empty()) {
    const window::ChunkId chunk = queue.front();
    if (table.state(chunk) == window::ChunkState::absent) return chunk;
    queue.pop();
  }
  return window::no_chunk;
}

}  // namespace weightpager::policy
