// Which chunks stay from one visit until the next one, because a pass soon comes back to them.
//
// Problem. Two tensors share a chunk, or the strips of two threads do, and the engine comes to it
// with both of them, a few dozen chunks apart: further than the ring reaches. A streamed chunk is
// then read twice in a pass. A pin saves both reads, but takes its place for the whole pass.
//
// Idea. Such a chunk needs a place only between the two visits. Intervals between visits that do
// not overlap share one place, so one place saves a read each time that it is taken. Places are set
// aside for intervals one by one, as long as one saves more reads than a pin would; the shortest
// intervals come first. (That is what a policy does that knows the future: it keeps what is needed
// again soonest.)
//
// A pure function of the order. Cost: O(V log V + L) for V intervals of L positions together, for
// each place.
#pragma once

#include <cstdint>
#include <vector>

#include "pager/policy/pass_order.h"

namespace weightpager::policy {

class HeldVisits {
 public:
  /// Chooses anew. Visits up to `near` positions apart need no place; at most `places_max` places
  /// are taken.
  void choose(const PassOrder& order, uint32_t near, uint32_t places_max);
  /// Chunks that are held at once, at most.
  uint32_t places() const { return places_; }
  /// Whether the chunk that is visited at `position` stays until its next visit.
  bool contains(uint32_t position) const { return is_held_[position]; }

 private:
  std::vector<bool> is_held_;  // by position
  uint32_t places_ = 0;
};

}  // namespace weightpager::policy
