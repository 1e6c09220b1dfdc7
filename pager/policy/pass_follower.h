// Follows the engine through its passes: in which order it goes, where it is, which chunks stay.
//
// Ties five parts together. The order begins as the one that the files tell, or an earlier run has
// learned. Each touch moves the cursor (cursor.h), which says what is to be read next and what may
// go, and teaches the order (order_learner.h). A chunk that two tensors share is visited with each
// of them where the engine takes the tensors one long after the other; other chunks that a pass
// comes back to are found by their touches (revisits.h). When the order or the window changes, the
// window is divided anew (window_shares.h) and pins are chosen anew (pins.h).
//
// Does no I/O and takes no actions: the caller reads and evicts, and reports both. Cost: O(1)
// amortised a chunk and pass; O(N log N), and allocations, when the order or the window changes or
// more threads wait at once.
#pragma once

#include <cstdint>
#include <vector>

#include "pager/policy/awaited_chunks.h"
#include "pager/policy/cursor.h"
#include "pager/policy/held_visits.h"
#include "pager/policy/layer_above.h"
#include "pager/policy/left_out.h"
#include "pager/policy/order_learner.h"
#include "pager/policy/pass_order.h"
#include "pager/policy/pins.h"
#include "pager/policy/policy.h"
#include "pager/policy/read_ahead.h"
#include "pager/policy/revisits.h"
#include "pager/policy/window_shares.h"

namespace weightpager::policy {

class PassFollower {
 public:
  /// What became of the order. `edited`: some visits were taken out or added, the others are as
  /// before.
  enum class OrderChange { none, edited, replaced };

  /// `table` and `above` outlive the follower.
  PassFollower(const ChunkTable& table, const Settings& settings, const LayerAbove& above);
  PassFollower(const PassFollower&) = delete;  // its parts refer to each other
  PassFollower& operator=(const PassFollower&) = delete;

  /// Begins with this order; what was learned before is forgotten. `has_loaded`: the engine's first
  /// pass follows, unless an earlier one is not over yet. Passes are expected to leave out
  /// `left_out`, and what earlier orders left out: chunks of the order, which belong to it when the
  /// engine comes back to them.
  void set_order(const ChunkOrder& order, bool has_loaded = false,
                 const std::vector<ChunkId>& left_out = {});
  /// The table's resident_max changed.
  void divide();
  /// How long the engine computes from each chunk of the order, in any unit.
  void set_pace(std::vector<float> pace);

  /// The engine touched the chunk. Returns true if the order or the pins changed or the cursor
  /// jumped, so that the chunks that may go have to be listed anew.
  bool note_touch(ChunkId chunk);
  /// A pass will begin soon: reading begins at the order's first chunk, as far as there is room.
  /// Returns false and does nothing if it is known already where the engine is, or if the order is
  /// empty.
  bool begin_pass();
  void note_arrival(ChunkId chunk) {
    learner_.note_arrival();
    awaited_.note_arrival(chunk);
  }
  void note_evicted(ChunkId chunk);

  /// The chunk that should be read ahead now, or no_chunk; the same until it is read.
  ChunkId next_ahead();
  /// So many chunks were read ahead, and the engine has not passed them yet.
  uint32_t read_ahead() const { return ahead_.count(); }
  /// The chunk of `next_ahead` is being read.
  void note_read_ahead(ChunkId chunk);
  /// A chunk that the engine has left behind since the last touch, or no_chunk; each one once.
  ChunkId next_consumed() { return cursor_.next_consumed(); }
  /// A chunk whose next touch should be seen, to learn the order, or no_chunk; each one once.
  template <typename CanBeHidden>
  ChunkId next_unseen(CanBeHidden can_be_hidden) {
    return learner_.next_unseen(can_be_hidden);
  }
  /// Of what was read ahead, the chunk that is needed last and may go, or no_chunk.
  template <typename MayGo>
  ChunkId farthest_ahead(MayGo may_go) const {
    return cursor_.find_farthest(
        [&](ChunkId chunk) { return ahead_.contains(chunk) && may_go(chunk); });
  }

  const PassOrder& order() const { return order_; }
  const WindowShares& shares() const { return shares_; }
  bool is_pinned(ChunkId chunk) const { return chunk < chunks_ && pins_.contains(chunk); }
  /// Whether the user wants the chunk to stay.
  bool is_kept(ChunkId chunk) const { return chunk < chunks_ && pins_.is_kept(chunk); }
  /// Whether the chunk is in use, or about to be, or held until its next visit.
  bool is_needed(ChunkId chunk) const;
  /// Whether a pass is known to make the chunk's next visit. Requires order().contains(chunk).
  bool is_expected(ChunkId chunk) const;
  /// So many of the last deliveries are safe, if the chunk is one of them: its thread needs a
  /// moment to use it.
  uint64_t safe_deliveries(ChunkId chunk) const;

  /// The order and the pace in use: learned from the engine, or given. Empty if neither is known.
  AccessProfile access_profile() const;
  /// What became of the order since the last call.
  OrderChange take_order_change();
  const PolicyStatistics& statistics() const { return statistics_; }
  /// For the counters of a layer above.
  PolicyStatistics& statistics() { return statistics_; }

 private:
  void note_awaited(ChunkId chunk);
  void note_ordered(ChunkId chunk);
  void note_unordered(ChunkId chunk);
  WindowNeeds needs() const;
  void install_order(std::vector<ChunkId> order);
  bool edit_order();
  void use_order();
  void follow(ChunkId chunk);
  void drop_unseen();
  Revisits::Kind note_revisit(ChunkId chunk);
  void advance_to(uint64_t place);
  void jump_to(uint64_t place);
  void leave_behind(uint64_t place);
  void end_pass(uint64_t passes);
  void reconsider();
  void correct_order();

  const ChunkTable& table_;
  const Settings settings_;
  const LayerAbove& above_;
  uint32_t chunks_ = 0;          // of the table, when the order was set
  std::vector<ChunkId> shared_;  // by two tensors each
  bool drops_unseen_ = false;    // when the first pass has been seen
  bool is_first_pass_ = false;   // after a load: it shows what a pass is
  uint64_t first_pass_touches_ = 0;
  LeftOut left_out_;
  bool is_order_learned_ = false;  // from the engine, in this run or an earlier one
  PassOrder order_;
  OrderLearner learner_;
  Revisits revisits_;
  Cursor cursor_;
  ReadAhead ahead_;
  AwaitedChunks awaited_;
  uint32_t joins_watched_ = 0;  // matrices that joined, after which the order was learned anew
  Pins pins_;
  HeldVisits held_;
  WindowShares shares_;
  bool is_rearranged_ = false;  // since the touch began
  OrderChange order_change_ = OrderChange::none;
  PolicyStatistics statistics_;
};

}  // namespace weightpager::policy
