// `expert`: pin-stream for the chunks that every pass needs, and a mixture's experts kept by use.
//
// A layer above pin-stream. ExpertCache (expert_cache.h) knows which experts stay and which of
// their chunks are to be read; pin-stream does the same for everything else. Both share one window:
// experts get what the rest leaves. This layer puts the wishes of both in one order.
//
// An engine that comes to an expert wants all of its chunks within microseconds, so the chunks that
// an expert in use lacks are read before anything is read ahead. About one slab of them is in
// flight at once: a disk may answer all requests that it has together, and an engine that waits for
// an expert can compute with the first slab while the next one is read. Some room stays free for
// the next expert that is missing: its reads then start without waiting for evictions. Where the
// window has grown, experts that were used before come back into room that nothing else wants.
//
// A pure state machine, as pin-stream is, with the same costs and those of ExpertCache. Without
// experts it does what pin-stream does.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pager/policy/expert_cache.h"
#include "pager/policy/pin_stream.h"
#include "pager/policy/policy.h"

namespace weightpager::policy {

class ExpertPolicy final : public Policy {
 public:
  /// `table` outlives the policy.
  ExpertPolicy(const ChunkTable& table, const Settings& settings)
      : table_(table), settings_(settings), stream_(table, settings), experts_(table) {}

  void set_order(const ChunkOrder& order) override;
  void on_resized() override;
  void on_touch(ChunkId chunk, uint32_t offset_bytes) override;
  void on_growth(ChunkId chunk) override { stream_.on_growth(chunk); }
  bool on_ready(ChunkId chunk) override;
  void on_refused(ChunkId chunk) override { stream_.on_refused(chunk); }
  void on_not_hidden(ChunkId chunk) override { stream_.on_not_hidden(chunk); }
  void on_standstill() override { stream_.on_standstill(); }
  void will_need(std::span<const ChunkId> chunks) override;
  void consumed(std::span<const ChunkId> chunks) override { stream_.consumed(chunks); }
  Action next() override;
  uint32_t ring_chunks() const override { return stream_.ring_chunks(); }
  uint32_t pinned_chunks() const override { return stream_.pinned_chunks(); }
  AccessProfile access_profile() const override { return stream_.access_profile(); }
  bool is_pinned(ChunkId chunk) const override { return stream_.is_pinned(chunk); }
  const PolicyStatistics& statistics() const override { return stream_.statistics(); }

  // What pin-stream offers beyond a policy (pin_stream.h).

  const PassOrder& order() const { return stream_.follower().order(); }
  void set_pace(std::vector<float> pace);
  PassFollower::OrderChange take_order_change() { return stream_.take_order_change(); }
  PolicyStatistics& counters() { return stream_.counters(); }

 private:
  void share_window();
  void share_window_if_rearranged();
  void touch_expert(ChunkId chunk, uint32_t offset_bytes);
  Action grant(const PinStream::Wish& wish);
  Action rest_of_experts();
  /// `lacks_nothing`: everything that experts in use lack is being read.
  Action spare_room(bool lacks_nothing);
  Action hide();
  Action returning();
  Action make_room(bool for_demand);
  Action expert_victim();
  Action growth_victim(bool for_demand);
  uint32_t chunks_in(uint64_t bytes) const {
    return static_cast<uint32_t>(bytes / settings_.chunk_bytes);
  }

  const ChunkTable& table_;
  const Settings settings_;
  PinStream stream_;
  ExpertCache experts_;
  uint32_t spare_ = 0;         // chunks kept free for the next expert that is missing
  uint64_t arrangements_ = 0;  // of stream_, when the window was shared
};

}  // namespace weightpager::policy
