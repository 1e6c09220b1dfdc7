// Learns the order in which the engine touches chunks, from its touches.
//
// Problem. A model's files tell an order in which its chunks are likely to be used. Engines differ:
// they execute layers in another order, sort tensors inside a layer, let threads walk through a
// matrix side by side, or leave chunks out. While an engine loads, it looks at places all over the
// model, which says nothing about a pass.
//
// Idea. A chunk that was never touched is left unmapped, so the first pass shows every first touch.
// When the engine is back at what it touched long ago, a pass is over: if its first touches
// contradict the order that was assumed, they become the order. Afterwards, touches that do not fit
// are counted. Many touches far from where the engine should be, among as many reads as the order
// has chunks, say that the order is wrong. So do jumps in every pass, or in every other one. Then
// the engine is watched for another pass. Touches of chunks that a longer ring would have kept say
// that the engine's threads work far apart: the ring is to be longer where that pays
// (linger_need.h). A chunk that two passes left untouched is not part of the pass.
//
// Knows the order that is assumed, and does not change it. Cost: O(1) an event, O(N) for a pass
// that ends; 5 bytes a chunk of the table, 4 a chunk that was seen. Only `reset` allocates.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "pager/policy/linger_need.h"
#include "pager/policy/pass_order.h"

namespace weightpager::policy {

class OrderLearner {
 public:
  /// What was assumed, and may be wrong.
  enum class Doubt { none, order, ring };

  /// `order`, the one that is assumed, outlives the learner.
  explicit OrderLearner(const PassOrder& order) : order_(order) {}

  /// Begins to learn, and forgets what was seen. The table has `chunks` chunks.
  void reset(uint32_t chunks);
  /// Begins to learn once more. What counts as unused does so until it is touched.
  void begin_anew();
  /// Whatever is mapped is hidden once, so that the next pass shows what is still in use.
  void watch_all() { unseen_from_ = 0; }
  /// What was not seen, and has not joined, counts as unused. The first whole pass after the engine
  /// has loaded shows what it uses; weights that it has copied are not among that.
  void drop_unseen();

  bool is_learning() const { return is_learning_; }
  /// Whether the chunk was touched since learning began.
  bool has_seen(ChunkId chunk) const { return touch_ranks_[chunk] != never; }
  /// First touches since learning began, in their order.
  std::span<const ChunkId> seen() const { return seen_; }
  /// Whether two passes left the chunk untouched.
  bool is_unused(ChunkId chunk) const { return untouched_passes_[chunk] >= unused_after; }
  /// How many chunks should linger, because threads are further apart than a ring of the usual
  /// length allows; 0 if they are not.
  uint32_t linger_wanted() const { return linger_wanted_; }

  /// A touch of any chunk.
  void note_touch(ChunkId chunk) { untouched_passes_[chunk] = 0; }
  /// A touch of a chunk that was in the order when the engine came to it. Returns true if learning
  /// ends with this touch, because the engine has shown a whole pass.
  bool note_order(ChunkId chunk);
  /// The chunk joins the order, because the engine has touched it in this pass.
  void note_joining(ChunkId chunk) {
    has_joined_[chunk] = true;
    untouched_passes_[chunk] = 0;
  }
  /// The engine has passed the chunk, and nobody saw a touch.
  void note_untouched(ChunkId chunk);
  /// A read has ended.
  void note_arrival();
  /// The engine has come to the end of the order.
  void end_pass();
  /// A touch was far from where the engine should be.
  void note_stray() { ++strays_; }
  /// The engine went on from such a touch. A pass in the assumed order has no such place, while a
  /// single stray may come from another thread.
  void note_jump() {
    strays_ += strays_of_jump;
    ++jumps_;
  }
  /// A touch would have found its chunk, had chunks lingered for so long.
  void note_cramped(uint32_t linger) { cramped_.note(linger); }
  /// The ring has so many chunks now.
  void set_ring(uint32_t chunks) { ring_ = chunks; }

  /// Whether the pass that was seen contradicts the order. First touches that come up to
  /// `apart_max` chunks behind their place are threads out of step.
  bool is_contradicted(uint32_t apart_max) const;
  /// The order was replaced by what was seen. Whether threads are apart in it has to show anew.
  void note_correction() {
    is_corrected_ = true;
    linger_wanted_ = 0;
  }
  /// What the counted touches make doubtful. After `ring`, linger_wanted() is larger than before.
  Doubt doubt();

  /// The next chunk, since learning began anew, that was not seen and for which
  /// `can_be_hidden(chunk)` is true, or no_chunk; each one once. If it is hidden, its next touch is
  /// seen.
  template <typename CanBeHidden>
  ChunkId next_unseen(CanBeHidden can_be_hidden);

 private:
  static constexpr uint32_t never = UINT32_MAX;
  static constexpr uint8_t unused_after = 2;
  static constexpr uint32_t strays_of_jump = 2;

  bool is_much(uint32_t count) const { return count > std::max(8u, order_.size() / 32); }
  void begin();
  void end();
  uint32_t saved_min() const { return std::max(order_.size() / 128, 2u); }

  const PassOrder& order_;
  bool is_learning_ = true;
  std::vector<ChunkId> seen_;
  std::vector<uint32_t> touch_ranks_;      // by chunk: its index in seen_
  std::vector<uint8_t> untouched_passes_;  // by chunk
  std::vector<bool> has_joined_;           // by chunk: since learning began
  size_t touched_again_ = 0;               // touches of the older half since the last first touch
  ChunkId unseen_from_ = 0;                // the next chunk to look at when learning anew

  uint32_t strays_ = 0;
  LingerNeed cramped_;
  uint32_t ring_ = 0;
  uint32_t jumps_ = 0;
  uint32_t jumping_ = 0;   // how often passes had jumps lately
  uint32_t arrivals_ = 0;  // reads since strays_ was last 0
  uint32_t times_doubted_ = 0;
  bool has_begun_anew_ = false;
  bool is_corrected_ = false;
  uint32_t linger_wanted_ = 0;
};

template <typename CanBeHidden>
ChunkId OrderLearner::next_unseen(CanBeHidden can_be_hidden) {
  while (unseen_from_ < touch_ranks_.size()) {
    const ChunkId chunk = unseen_from_++;
    if (!has_seen(chunk) && can_be_hidden(chunk)) return chunk;
  }
  return window::no_chunk;
}

}  // namespace weightpager::policy
