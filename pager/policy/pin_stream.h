// What to read, hold, pin and evict next: pin a share of the model, stream the rest.
//
// Problem. A pass touches every chunk once, in the same order, over and over. On such a cyclic scan
// least-recently-used, which is what a kernel approximates, evicts exactly what is needed next and
// reads the whole model every pass, however large the window is.
//
// Idea. Of a window of T chunks, P = T − R − Q stay for good ("pinned"), spread evenly through the
// order so that the reads of the others spread evenly under the computation. The others are
// streamed through a ring of R chunks, read ahead of the cursor (where the engine is) and evicted a
// little behind it; the end of a pass is the beginning of the next. Q chunks serve what is not
// cyclic (embedding rows), by the clock algorithm. A pass then reads N − P chunks, R + Q more than
// any policy must. Experts of a mixture are a cache of their own (expert_cache.h) in what the rest
// leaves: whatever every pass needs is worth more than what some passes need.
//
// The cursor. Mapped chunks are silent, so now and then a chunk that is ready is left unmapped: a
// tripwire. Touching it costs microseconds and says where the engine is.
//
// The order comes from the model's layers and is corrected by what is seen: a chunk that was never
// touched is always a tripwire, so the first pass shows every first touch; if these contradict the
// order, they become the order, and a lesson for the next start (ChunkOrder::lesson), which begins
// with it. Where the engine is still found elsewhere after that, it is watched for another pass,
// and where its threads are further apart than the ring is long, the ring gets up to half of the
// window. Chunks that two passes left untouched are no longer read ahead; the next start tries them
// again.
//
// A pure state machine: no I/O, no clock, no threads, and no allocation in `on_touch`, `on_ready`
// and `next` but where a touch changes the order or the ring, a few times in a run. It reads the
// chunk table and never writes it; whoever drives it (the pager, a simulator) carries its actions
// out. Cost: O(1) amortised per chunk and pass; O(N log N) when the order or the window changes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "pager/base/units.h"
#include "pager/policy/chunk_queue.h"
#include "pager/policy/evictability.h"
#include "pager/policy/expert_cache.h"
#include "pager/policy/policy.h"

namespace weightpager::policy {

class PinStream : public Policy {
 public:
  /// `table` outlives the policy.
  PinStream(const ChunkTable& table, const Settings& settings);

  void set_order(const ChunkOrder& order) override;
  void on_resized() override;
  void on_touch(ChunkId chunk, uint32_t offset_bytes) override;
  bool on_ready(ChunkId chunk) override;
  void on_refused(ChunkId chunk) override;
  void on_standstill() override;
  /// Before the first touch, advice on more than half of the window makes it read from the order's
  /// first chunk on.
  void will_need(std::span<const ChunkId> chunks) override;
  void consumed(std::span<const ChunkId> chunks) override;
  Action next() override;

  /// How long the engine computes from each chunk of the order in use, in any unit: pins are then
  /// spread so that what is streamed needs the same share of that time everywhere.
  void set_pace(std::vector<float> pace);

  uint32_t ring_chunks() const override { return ring_; }
  uint32_t pinned_chunks() const override { return pinned_; }
  /// The order and the pace in use, if the engine taught either or they were given.
  Lesson lesson() const override;
  bool is_pinned(ChunkId chunk) const override {
    return chunk < facts_.size() && facts_[chunk].is_pinned;
  }
  const PolicyStatistics& statistics() const override { return statistics_; }
  /// The order in use now, for inspection and tests.
  std::span<const ChunkId> order() const { return order_; }

 protected:
  static constexpr uint32_t nowhere = UINT32_MAX;

  /// There is another order in use, and no pace for it; or the same one without some chunks.
  virtual void order_changed(bool /*is_shortened*/) {}
  void count_lesson() { ++statistics_.lessons; }
  const ChunkTable& table() const { return table_; }
  /// In the order in use, or nowhere.
  uint32_t position(ChunkId chunk) const { return facts_[chunk].position; }

 private:
  // A place is a position in the order, counted on across passes: place = pass · N + position.
  using Place = uint64_t;

  // Threads of one matrix multiplication work some MiB apart.
  static constexpr uint64_t linger_bytes_min = 8 * MiB;

  struct Facts {
    uint32_t position = nowhere;    // in order_; nowhere: sparse
    uint32_t touch_rank = nowhere;  // when it was first touched, since learning began
    uint8_t untouched_passes = 0;
    bool is_pinned = false;
    bool is_kept = false;  // the user wants it to be pinned
    bool is_revisited = false;
    bool is_prefetched = false;  // read ahead and not passed by the cursor yet
    bool is_late = false;        // … and the engine came while it was being read
    bool is_referenced = false;  // touched since the clock's hand came by
    bool is_in_clock = false;
    bool is_consumed = false;  // is in consumed_
  };

  uint32_t chunks_in(uint64_t bytes) const {
    return static_cast<uint32_t>(bytes / settings_.chunk_bytes);
  }
  uint32_t size() const { return static_cast<uint32_t>(order_.size()); }
  ChunkId chunk_at(Place place) const { return order_[place % order_.size()]; }
  uint32_t forward_distance(uint32_t position) const;
  uint32_t backward_distance(uint32_t position) const;
  bool is_recent(ChunkId chunk) const;
  bool is_around_cursor(ChunkId chunk) const;
  /// In use, or about to be.
  bool is_protected(ChunkId chunk) const { return is_recent(chunk) || is_around_cursor(chunk); }
  bool is_evictable(ChunkId chunk) const { return evictability_.is_evictable(chunk); }
  bool can_be_held(ChunkId chunk) const { return evictability_.can_be_held(chunk); }
  bool room_is_on_its_way() const { return table_.reading() > 0 && !is_at_standstill_; }

  void install_order(std::vector<ChunkId> order);
  void shorten_order();
  void use_order();
  void begin_pass();
  void choose_pins();
  void give_experts(uint32_t chunks);
  std::vector<float> pinned_shares() const;
  void rebuild_lists();
  void follow_cursor(ChunkId chunk);
  void advance_to(Place place);
  void jump_to(uint32_t position);
  void leave_behind(Place place);
  void end_pass(uint64_t passes);
  /// Of touches, among as many reads as the order has chunks.
  bool is_much(uint32_t count) const { return count > std::max(8u, size() / 32); }
  void widen_ring();
  /// What is behind the cursor from here on may still be in use.
  Place lingers_from() const { return cursor_ - std::min<Place>(linger_, cursor_); }
  /// Where threads are apart, if that is more than the usual quarter of the window.
  uint32_t ring_widest() const;
  void list_consumed();
  void list_consumed(ChunkId chunk);
  void reconsider();
  void begin_learning();
  void note_first_touch(ChunkId chunk);
  void end_learning();
  bool is_contradicted() const;
  void learn_again();

  void touch_expert(ChunkId chunk, uint32_t offset_bytes);

  void add_to_clock(ChunkId chunk);
  Action demand();
  Action shrink();
  Action hold();
  Action rest_of_experts();
  Action spare_room();
  Action advised();
  Action prefetch();
  Action returning();
  Action make_room(bool for_demand);
  Action free_a_slot(bool for_demand);
  Action expert_victim();
  Action clock_victim();
  ChunkId pop_consumed();
  ChunkId farthest_prefetched() const;
  ChunkId any_victim() const;
  Action evict(ChunkId chunk);

  const ChunkTable& table_;
  const Settings settings_;
  PolicyStatistics statistics_;

  std::vector<ChunkId> declared_order_;  // what set_order said
  bool is_order_taught_ = false;         // by the engine, now or earlier
  std::vector<ChunkId> order_;
  std::vector<float> pace_;   // by position; empty: all alike
  std::vector<Facts> facts_;  // by chunk
  Evictability evictability_;
  uint32_t ring_ = 0;
  uint32_t pinned_ = 0;
  uint32_t sparse_max_ = 0;  // Q
  uint32_t spare_ = 0;       // kept free for the next expert that is missing

  bool is_at_standstill_ = false;  // reads in flight may never end
  bool is_pass_expected_ = false;  // advised, and nothing touched yet
  bool has_cursor_ = false;
  Place cursor_ = 0;           // the engine is here, or a little further
  Place frontier_ = 0;         // everything in [cursor_, frontier_) has been asked for
  Place consumed_before_ = 0;  // everything before has been offered for eviction
  uint32_t linger_ = 0;        // chunks behind the cursor that may still be in use
  uint32_t ahead_ = 0;         // prefetched chunks that the cursor has not passed
  uint32_t ahead_max_ = 0;     // grows while the engine follows the order
  uint32_t since_tripwire_ = 0;
  uint32_t candidate_ = nowhere;  // position of the last touch far from the cursor

  std::vector<ChunkId> touched_in_order_;  // first touches since learning began
  size_t touched_again_ = 0;               // since the last first touch, from the older half
  bool is_learning_ = true;
  uint32_t strays_ = 0;    // touches far from where the engine should be
  uint32_t cramped_ = 0;   // touches of what would have been there, had the ring been wider
  uint32_t arrivals_ = 0;  // of chunks, since these two were last forgotten
  bool are_threads_apart_ = false;  // further than a ring of the usual length allows
  uint32_t lessons_ = 0;
  uint32_t unlearned_ = 0;  // next chunk to look at when learning anew

  ChunkQueue demand_;
  ChunkQueue advice_;
  ExpertCache experts_;
  std::vector<ChunkId> consumed_;  // last in, first out
  std::vector<ChunkId> clock_;
  size_t hand_ = 0;
};

}  // namespace weightpager::policy
