#include "pager/policy/victims.h"

#include <algorithm>
#include <utility>

namespace weightpager::policy {

void Victims::reset() {
  chunks_ = table_.chunks();
  evictability_.reset();
  consumed_.reset(chunks_);
  clock_.reset(chunks_);
}

void Victims::list_anew() {
  consumed_.clear();
  clock_.clear();
  for (ChunkId chunk = 0; chunk < chunks_; ++chunk) {
    if (!table_.is_resident(chunk) || follower_.is_pinned(chunk) || above_.owns(chunk)) continue;
    if (!follower_.order().contains(chunk)) {
      clock_.add(chunk);
    } else if (!follower_.is_needed(chunk)) {
      consumed_.add(chunk);
    }
  }
}

// A chunk that is still being read is listed when it has arrived.
void Victims::add_consumed(ChunkId chunk) {
  if (follower_.is_pinned(chunk) || follower_.is_needed(chunk) || clock_.contains(chunk)) return;
  if (evictability_.is_evictable(chunk)) consumed_.add(chunk);
}

void Victims::note_touch(ChunkId chunk) {
  clock_.note_touch(chunk);
  evictability_.note_touch(chunk);
}

// A chunk around the cursor is listed when the cursor leaves it behind. Any other chunk has to be
// in a list when it arrives, or nothing would evict it for the rest of the pass.
void Victims::note_arrival(ChunkId chunk) {
  if (is_recent(chunk)) evictability_.note_delivery(chunk);
  if (above_.owns(chunk)) return;
  const bool is_listed = follower_.is_pinned(chunk) || consumed_.contains(chunk);
  const bool is_cyclic = follower_.order().contains(chunk);
  if (is_cyclic && (is_listed || follower_.is_needed(chunk))) return;
  clock_.add(chunk);
}

bool Victims::is_recent(ChunkId chunk) const {
  return evictability_.is_among_last(chunk, follower_.safe_deliveries(chunk));
}

bool Victims::has_reason_to_stay(ChunkId chunk) const {
  const bool is_kept_above = above_.owns(chunk) && above_.keeps(chunk);
  return is_kept_above || follower_.is_pinned(chunk) || is_protected(chunk);
}

// Only chunks that were just delivered are passed over, and those are few, so this is O(1)
// amortised.
ChunkId Victims::next_consumed() {
  return consumed_.take([&](ChunkId chunk) { return is_recent(chunk); },
                        [&](ChunkId chunk) {
                          return evictability_.is_evictable(chunk) && !follower_.is_pinned(chunk) &&
                                 !is_protected(chunk);
                        });
}

SecondChance::Finding Victims::next_by_clock() {
  using Standing = SecondChance::Standing;
  return clock_.turn(
      [&](ChunkId chunk) {
        if (table_.state(chunk) == ChunkState::reading) return Standing::busy;
        if (is_recent(chunk) || evictability_.is_refused(chunk)) return Standing::busy;
        const bool leaves = !evictability_.is_evictable(chunk) || has_reason_to_stay(chunk);
        return leaves ? Standing::needed : Standing::idle;
      },
      [&](ChunkId chunk) { return can_be_hidden(chunk); });
}

ChunkId Victims::farthest_ahead() const {
  return follower_.farthest_ahead([&](ChunkId chunk) { return can_go(chunk); });
}

ChunkId Victims::take_oldest_of_file(GrowingMemory& growing) const {
  return growing.take_oldest_of_file(
      [&](ChunkId chunk) { return table_.is_resident(chunk) && !above_.owns(chunk); },
      [&](ChunkId chunk) {
        return evictability_.is_evictable(chunk) && !is_protected(chunk) &&
               !follower_.is_kept(chunk);
      });
}

ChunkId Victims::any_ready() const {
  for (ChunkId chunk = 0; chunk < chunks_; ++chunk) {
    if (table_.state(chunk) == ChunkState::ready && !is_recent(chunk)) return chunk;
  }
  return window::no_chunk;
}

ChunkId Victims::oldest() const {
  ChunkId victim = window::no_chunk;
  const auto worth = [&](ChunkId chunk) {
    return std::pair(follower_.is_pinned(chunk), evictability_.last_touch(chunk));
  };
  for (ChunkId chunk = 0; chunk < chunks_; ++chunk) {
    if (!evictability_.is_evictable(chunk) || !table_.leaves_room(chunk)) continue;
    if (victim == window::no_chunk || worth(chunk) < worth(victim)) victim = chunk;
  }
  return victim;
}

}  // namespace weightpager::policy
