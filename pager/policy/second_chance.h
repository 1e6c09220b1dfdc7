// Which chunk to evict where no order is known: the clock algorithm, with hiding in place of
// referenced bits.
//
// Problem. Some chunks are touched now and then. Those in use should stay. A processor has a bit
// for each page that says whether it was used; a userfaultfd shows touches of chunks that are not
// mapped, and no others.
//
// Idea. Second chance: a hand goes round the chunks. One that was touched since the hand came by
// last is taken out of the engine's sight, with its bytes kept (hidden). If it is touched before
// the hand comes back, it stays for another round; otherwise it goes.
//
// Cost: O(1) to add a chunk, two rounds of the hand at worst to find a victim, 5 bytes a chunk.
// Only `reset` allocates.
#pragma once

#include <cstddef>
#include <vector>

#include "pager/policy/chunk_order.h"

namespace weightpager::policy {

class SecondChance {
 public:
  /// What the clock's owner says about the chunk that the hand has come to.
  enum class Standing {
    busy,    // cannot go now: the hand passes it over
    needed,  // has a reason to stay, or is gone already: it leaves the clock
    idle,    // goes, if it was not touched
  };
  /// What the hand has found.
  struct Finding {
    ChunkId chunk = window::no_chunk;  // no_chunk: nothing can go now
    bool is_to_be_hidden = false;      // otherwise the chunk goes, and has left the clock
  };

  /// Empties the clock and forgets all touches. The table has `chunks` chunks.
  void reset(uint32_t chunks);
  /// Empties the clock.
  void clear();

  size_t size() const { return members_.size(); }
  bool is_empty() const { return members_.empty(); }
  bool contains(ChunkId chunk) const { return is_member_[chunk]; }
  /// Nothing happens if the chunk is in the clock already.
  void add(ChunkId chunk);
  /// A touch of any chunk, in the clock or not.
  void note_touch(ChunkId chunk) { is_touched_[chunk] = true; }

  /// Turns the hand until a chunk can go or shall be hidden. `standing_of(chunk)` returns a
  /// Standing; `can_be_hidden(chunk)` says whether the chunk can be hidden. A touched chunk that
  /// cannot be hidden is passed over once.
  template <typename StandingOf, typename CanBeHidden>
  Finding turn(StandingOf standing_of, CanBeHidden can_be_hidden);

 private:
  void remove_at_hand();

  std::vector<ChunkId> members_;
  std::vector<bool> is_member_;   // by chunk
  std::vector<bool> is_touched_;  // by chunk: since the hand came by
  size_t hand_ = 0;               // in members_
};

template <typename StandingOf, typename CanBeHidden>
SecondChance::Finding SecondChance::turn(StandingOf standing_of, CanBeHidden can_be_hidden) {
  for (size_t steps = 2 * members_.size(); steps > 0 && !members_.empty(); --steps) {
    if (hand_ >= members_.size()) hand_ = 0;
    const ChunkId chunk = members_[hand_];
    const Standing standing = standing_of(chunk);
    if (standing == Standing::busy) {
      ++hand_;
      continue;
    }
    if (standing == Standing::idle && is_touched_[chunk]) {
      is_touched_[chunk] = false;
      ++hand_;
      if (can_be_hidden(chunk)) return {chunk, true};
      continue;
    }
    remove_at_hand();
    if (standing == Standing::idle) return {chunk, false};
  }
  return {};
}

}  // namespace weightpager::policy
