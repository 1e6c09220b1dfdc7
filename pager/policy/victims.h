// Which chunk makes room, of those that no layer above owns.
//
// Chunks that the engine has left behind go first: they are of no use until the next pass comes
// round (consumed_chunks.h). Chunks that are not cyclic, or that were found resident without a
// reason, get a second chance (second_chance.h). Chunks that were read ahead are worth more; of
// them, the farthest goes first. Pinned chunks go last. A chunk that was just delivered stays,
// because the thread that waited for it needs a moment to use it: the last eight deliveries are
// safe, or more of them where threads work far apart. Where no order tells what is needed, each of
// the threads that wait at once has two places.
//
// Cost: O(1) amortised an eviction; O(N) to list everything anew, and to find a victim where
// nothing else is left.
#pragma once

#include <cstdint>

#include "pager/policy/consumed_chunks.h"
#include "pager/policy/evictability.h"
#include "pager/policy/growing_memory.h"
#include "pager/policy/layer_above.h"
#include "pager/policy/pass_follower.h"
#include "pager/policy/second_chance.h"

namespace weightpager::policy {

class Victims {
 public:
  /// All three outlive this object.
  Victims(const ChunkTable& table, const PassFollower& follower, const LayerAbove& above)
      : table_(table), follower_(follower), above_(above), evictability_(table) {}

  /// Forgets all chunks, but not the count of touches. The caller has to list the chunks anew.
  void reset();
  /// Lists every chunk that is resident without a reason.
  void list_anew();
  /// The engine has left the chunk behind, or advised that it is consumed.
  void add_consumed(ChunkId chunk);
  /// The chunk cannot go now, or came without a reason to stay.
  void add_to_clock(ChunkId chunk) { clock_.add(chunk); }

  void note_touch(ChunkId chunk);
  /// A read of the chunk has ended.
  void note_arrival(ChunkId chunk);
  void note_refusal(ChunkId chunk) { evictability_.note_refusal(chunk); }
  void note_not_hidden(ChunkId chunk) { evictability_.note_not_hidden(chunk); }
  /// Chunks that the kernel refused may be asked for again at once. O(N).
  void forget_refusals() { evictability_.forget_refusals(); }

  /// Whether anything was touched since the beginning.
  bool has_touches() const { return evictability_.touches() > 0; }
  bool can_be_hidden(ChunkId chunk) const { return evictability_.can_be_hidden(chunk); }
  /// Whether the chunk can go and was not just delivered.
  bool can_go(ChunkId chunk) const {
    return evictability_.is_evictable(chunk) && !is_recent(chunk);
  }

  /// A chunk that is of no use, or no_chunk. It leaves the list.
  ChunkId next_consumed();
  /// What the clock's hand finds. A chunk that is to go leaves the clock.
  SecondChance::Finding next_by_clock();
  /// Whether the clock has more chunks than the window's share for sparse chunks.
  bool is_clock_over_share() const { return clock_.size() > follower_.shares().sparse; }
  /// Of the chunks read ahead, the one that is needed last, or no_chunk. It is stale if the engine
  /// went elsewhere.
  ChunkId farthest_ahead() const;
  /// The chunk that was touched longest ago of those that can be read again, pinned or not; or
  /// no_chunk.
  ChunkId take_oldest_of_file(GrowingMemory& growing) const;
  /// A chunk that is not mapped, or no_chunk. O(N).
  ChunkId any_ready() const;
  /// The last resort: the chunk that was touched longest ago, pinned chunks last; or no_chunk.
  /// O(N).
  ChunkId oldest() const;

 private:
  bool is_recent(ChunkId chunk) const;
  /// Whether the chunk was just delivered, or is needed.
  bool is_protected(ChunkId chunk) const { return is_recent(chunk) || follower_.is_needed(chunk); }
  bool has_reason_to_stay(ChunkId chunk) const;

  const ChunkTable& table_;
  const PassFollower& follower_;
  const LayerAbove& above_;
  uint32_t chunks_ = 0;
  Evictability evictability_;
  ConsumedChunks consumed_;
  SecondChance clock_;
};

}  // namespace weightpager::policy
