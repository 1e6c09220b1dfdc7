// `ring`: reads ahead without a break, as far as the window allows, and drops what the engine has
// passed.
//
// The window is one ring that runs along the order and across its end into the next pass; the disk
// is never idle while there is room. Nothing stays, so a pass reads the whole model. Every eighth
// of the ring has a tripwire, which says where the engine is. Cost: O(1) amortised a chunk.
#pragma once

#include "pager/policy/baselines/policy_base.h"

namespace weightpager::policy {

class WholeRing final : public PolicyBase {
 public:
  using PolicyBase::PolicyBase;

  void on_resized() override { use_order(); }
  uint32_t ring_chunks() const override { return length_; }

 private:
  void use_order() override;
  void touched(ChunkId chunk) override;
  bool arrived(ChunkId chunk) override;
  ChunkId next_ahead() override;
  bool may_go(ChunkId chunk) const override;

  uint32_t distance_ahead(uint32_t position) const;
  void go_to(uint32_t position);

  uint32_t length_ = 0;
  uint32_t behind_ = 0;  // chunks behind the engine that may still be in use
  bool has_cursor_ = false;
  // Places: positions in the order, counted on across passes.
  uint64_t cursor_ = 0;
  uint64_t frontier_ = 0;         // everything in [cursor_, frontier_) was there or asked for
  uint32_t candidate_ = nowhere;  // where the last touch far from the cursor was
  uint32_t since_tripwire_ = 0;
};

}  // namespace weightpager::policy
