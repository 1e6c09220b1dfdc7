// `pin-stream`: pins a share of the model and streams the rest.
//
// Problem. A pass touches every chunk once, in the same order, over and over. On such a cyclic scan
// least-recently-used, which is what a kernel approximates, evicts exactly what is needed next and
// reads the whole model every pass, however large the window is.
//
// Idea. Of a window of T chunks, P = T − R − Q stay for good ("pinned"), spread evenly through the
// order so that the reads of the others spread evenly under the computation (pins.h). The others
// are streamed through a ring of R chunks, read ahead of the cursor (where the engine is: cursor.h)
// and evicted a little behind it; the end of a pass is the beginning of the next. Q chunks serve
// what is not cyclic (embedding rows), by the clock algorithm (second_chance.h). A pass then reads
// N − P chunks, R + Q more than any policy must.
//
// Mapped chunks are silent, so now and then a chunk that is ready is left unmapped: a tripwire.
// Touching it costs microseconds and says where the engine is. The order comes from the model's
// layers and is corrected by what is seen (order_learner.h): a chunk that was never touched is
// always a tripwire, so the first pass shows every first touch. An order that was corrected is part
// of the access profile for the next start.
//
// PassFollower knows what the engine does, Victims knows which chunk makes room; PinStream asks
// both and says what is to be done. A layer above can have chunks of its own in the same window
// (layer_above.h): pin-stream reads those only for threads that wait, and the layer above asks for
// pin-stream's steps one by one, between its own.
//
// A pure state machine: no I/O, no clock, no threads, and no allocation in `on_touch`, `on_ready`
// and `next`, except where a touch changes the order or the ring: a few times in a pass at most. It
// reads the chunk table and never writes it; the driver (the pager or the simulator) carries its
// actions out. Cost: O(1) amortised per chunk and pass; O(N log N) when the order or the window
// changes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pager/policy/chunk_queue.h"
#include "pager/policy/growing_memory.h"
#include "pager/policy/layer_above.h"
#include "pager/policy/pass_follower.h"
#include "pager/policy/policy.h"
#include "pager/policy/victims.h"

namespace weightpager::policy {

class PinStream final : public Policy {
 public:
  /// What a step wants: a read, or room for one.
  struct Wish {
    enum class Kind : uint8_t { nothing, read, room };
    Kind kind = Kind::nothing;
    bool is_demand = false;
    ChunkId chunk = window::no_chunk;  // of `read`

    Action read() const { return {Action::Kind::read, chunk, is_demand}; }
  };

  /// `table` outlives the policy.
  PinStream(const ChunkTable& table, const Settings& settings);

  void set_order(const ChunkOrder& order) override { set_order(order, {}); }
  void on_resized() override;
  void on_touch(ChunkId chunk, uint32_t offset_bytes) override;
  void on_growth(ChunkId chunk) override { growing_.note_new(chunk); }
  bool on_ready(ChunkId chunk) override;
  void on_refused(ChunkId chunk) override;
  void on_not_hidden(ChunkId chunk) override { victims_.note_not_hidden(chunk); }
  void on_standstill() override;
  /// Before the first touch, advice on more than half of the window makes it read from the order's
  /// first chunk on.
  void will_need(std::span<const ChunkId> chunks) override;
  void consumed(std::span<const ChunkId> chunks) override;
  Action next() override;
  uint32_t ring_chunks() const override { return follower_.shares().ring; }
  uint32_t pinned_chunks() const override { return follower_.shares().pinned; }
  /// The order and the pace in use: learned from the engine, or given. Empty if neither is known.
  AccessProfile access_profile() const override { return follower_.access_profile(); }
  bool is_pinned(ChunkId chunk) const override { return follower_.is_pinned(chunk); }
  const PolicyStatistics& statistics() const override { return follower_.statistics(); }

  /// The order in use now, and where the engine is.
  const PassFollower& follower() const { return follower_; }

  // ---- For a layer above ----

  /// As `set_order`, with a layer above.
  void set_order(const ChunkOrder& order, LayerAbove above);
  /// How long the engine computes from each chunk of the order in use, in any unit: pins are then
  /// spread so that what is streamed needs the same share of that time everywhere.
  void set_pace(std::vector<float> pace);
  /// What became of the order since the last call.
  PassFollower::OrderChange take_order_change() { return follower_.take_order_change(); }
  /// How often the window was divided or chunks were listed anew. Each time the layer above may get
  /// another share, and those of its chunks that it left to the clock are in no list any more.
  uint64_t arrangements() const { return arrangements_; }
  PolicyStatistics& counters() { return follower_.statistics(); }
  /// Whether advice on `chunks` only says that a pass will begin, because they are too many.
  bool announces_pass(std::span<const ChunkId> chunks) const {
    return chunks.size() > table_.resident_max() / 2;
  }

  // The steps of `next`, in the order of their worth.
  Wish demand();
  /// Wants room if more is resident than the window allows: the window has shrunk.
  Wish shrink() const {
    const bool is_too_much = table_.resident() > table_.resident_max();
    return {is_too_much ? Wish::Kind::room : Wish::Kind::nothing, true};
  }
  Action show_unseen();
  Wish advised();
  Wish prefetch();

  // The steps of making room.

  /// Whether the engine fills memory, as it does while it loads.
  bool is_growing() const { return growing_.is_growing(); }
  /// Whether it does, and will soon need room that is not there.
  bool lacks_room_for_growth() const;
  /// Evicts a chunk that can be read again, for one that is new. A read ahead takes the place of
  /// what was touched only.
  Action file_victim(bool for_demand);
  /// Frees a slot where the window has room but no slot to read into.
  Action free_a_slot(bool for_demand);
  /// Evicts a chunk that is of no use, or of less use than streamed chunks; or hides a chunk to
  /// learn whether it is of use.
  Action useless_victim(bool for_demand);
  /// Evicts a chunk that is of use.
  Action useful_victim();
  /// Says which chunk can go, and takes what the layer above leaves to the clock.
  Victims& victims() { return victims_; }

 private:
  bool room_is_on_its_way() const { return table_.reading() > 0 && !is_at_standstill_; }
  void list_anew();
  Action grant(const Wish& wish);
  Action make_room(bool for_demand);
  Action evict(ChunkId chunk);

  const ChunkTable& table_;
  const Settings settings_;
  LayerAbove above_;
  PassFollower follower_;
  Victims victims_;
  GrowingMemory growing_;
  ChunkQueue demand_;
  ChunkQueue advice_;
  uint32_t since_tripwire_ = 0;    // chunks that arrived since the last tripwire
  bool is_at_standstill_ = false;  // reads in flight may never end
  bool is_pass_expected_ = false;  // advised, and nothing touched yet
  uint64_t arrangements_ = 0;
};

}  // namespace weightpager::policy
