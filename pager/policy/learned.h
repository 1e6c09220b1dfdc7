// `learned`: the policy `expert`, with a measured pace: how long the engine computes from each
// chunk.
//
// Layers of one size need not compute for the same time: an output matrix, a convolution with many
// pixels, a layer on another device. Reads of what is streamed hide under computing, so pins belong
// where the engine computes little. The pace is measured (pace_meter.h) and told to pin-stream,
// which spreads its pins by it; the order itself is learned by pin-stream. Pace and order are the
// access profile for the next start.
#pragma once

#include <cstdint>
#include <span>

#include "pager/policy/expert_policy.h"
#include "pager/policy/pace_meter.h"
#include "pager/policy/policy.h"

namespace weightpager::policy {

class Learned final : public Policy {
 public:
  /// `table` outlives the policy.
  Learned(const ChunkTable& table, const Settings& settings)
      : table_(table), policy_(table, settings), meter_(table, policy_.order()) {}

  void set_order(const ChunkOrder& order) override;
  void on_resized() override { policy_.on_resized(); }
  void on_time(uint64_t now_ns) override { meter_.set_time(now_ns); }
  void on_touch(ChunkId chunk, uint32_t offset_bytes) override;
  void on_growth(ChunkId chunk) override { policy_.on_growth(chunk); }
  bool on_ready(ChunkId chunk) override;
  void on_refused(ChunkId chunk) override { policy_.on_refused(chunk); }
  void on_not_hidden(ChunkId chunk) override { policy_.on_not_hidden(chunk); }
  void on_standstill() override { policy_.on_standstill(); }
  void will_need(std::span<const ChunkId> chunks) override { policy_.will_need(chunks); }
  void consumed(std::span<const ChunkId> chunks) override { policy_.consumed(chunks); }
  Action next() override { return policy_.next(); }
  uint32_t ring_chunks() const override { return policy_.ring_chunks(); }
  uint32_t pinned_chunks() const override { return policy_.pinned_chunks(); }
  bool is_pinned(ChunkId chunk) const override { return policy_.is_pinned(chunk); }
  AccessProfile access_profile() const override { return policy_.access_profile(); }
  const PolicyStatistics& statistics() const override { return policy_.statistics(); }

 private:
  void note_order_change();

  const ChunkTable& table_;
  ExpertPolicy policy_;
  PaceMeter meter_;
};

}  // namespace weightpager::policy
