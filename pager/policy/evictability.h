// Which chunks may be evicted or hidden now, whatever they are worth.
//
// A chunk that is being read cannot go. A chunk that the kernel refused to let go of, because
// somebody pins its pages, is not asked for again before `refusal_touches` more touches. A chunk
// that could not be hidden is not to be hidden for as long, but it can be evicted. A chunk that was
// just delivered should stay, because the thread that waited for it needs a moment to use it; each
// policy says how many deliveries are safe. The count of touches serves as the clock.
//
// Part of every policy but belady. Cost: O(1), and 24 bytes for each chunk.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "pager/policy/chunk_order.h"

namespace weightpager::policy {

class Evictability {
 public:
  /// Touches after a refusal until the chunk is to be evicted, or hidden, again.
  static constexpr uint64_t refusal_touches = 64;

  /// `table` outlives this object.
  explicit Evictability(const ChunkTable& table) : table_(table) {}

  /// Forgets all but the count of touches.
  void reset() { histories_.assign(table_.chunks(), History{}); }

  void note_touch(ChunkId chunk) { histories_[chunk].last_touch = ++touches_; }
  /// A chunk that was touched a moment ago has arrived: its thread goes on only now.
  void note_delivery(ChunkId chunk) { histories_[chunk].last_touch = touches_; }
  void note_refusal(ChunkId chunk) { histories_[chunk].refused_until = touches_ + refusal_touches; }
  void note_not_hidden(ChunkId chunk) {
    histories_[chunk].shown_until = touches_ + refusal_touches;
  }
  /// Chunks that the kernel refused may be asked for again at once. O(N).
  void forget_refusals() {
    for (History& history : histories_) history.refused_until = 0;
  }

  uint64_t touches() const { return touches_; }
  /// The count of touches when the chunk was touched or delivered last; 0: never.
  uint64_t last_touch(ChunkId chunk) const { return histories_[chunk].last_touch; }
  /// Whether the chunk is one of the `count` that were touched or delivered last.
  bool is_among_last(ChunkId chunk, uint64_t count) const {
    const uint64_t last = histories_[chunk].last_touch;
    return last != 0 && touches_ - last < count;
  }
  bool is_refused(ChunkId chunk) const { return touches_ < histories_[chunk].refused_until; }
  bool is_evictable(ChunkId chunk) const {
    const ChunkState state = table_.state(chunk);
    return !is_refused(chunk) && (state == ChunkState::ready || state == ChunkState::mapped);
  }
  /// Whether the chunk is mapped and has a slot for its bytes to go back to, and neither evicting
  /// nor hiding it failed lately.
  bool can_be_hidden(ChunkId chunk) const {
    if (is_refused(chunk) || touches_ < histories_[chunk].shown_until) return false;
    return table_.state(chunk) == ChunkState::mapped && table_.slot(chunk) != window::no_slot;
  }

 private:
  struct History {
    uint64_t last_touch = 0;
    uint64_t refused_until = 0;
    uint64_t shown_until = 0;
  };

  const ChunkTable& table_;
  std::vector<History> histories_;  // by chunk
  uint64_t touches_ = 0;
};

}  // namespace weightpager::policy
