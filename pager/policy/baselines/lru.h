// `lru`: reads only chunks that are touched; the chunk that was touched longest ago goes.
//
// Touches are seen by hiding the older half of the window (newer_half.h). Cost: O(1) an event.
#pragma once

#include "pager/policy/baselines/newer_half.h"
#include "pager/policy/baselines/policy_base.h"

namespace weightpager::policy {

class Lru final : public PolicyBase {
 public:
  using PolicyBase::PolicyBase;

 private:
  void use_order() override { newer_half_.reset(table_.chunks()); }
  void touched(ChunkId chunk) override {
    PolicyBase::touched(chunk);
    newer_half_.note_touch(chunk);
  }
  ChunkId next_hold() override { return newer_half_.next_hold(table_); }

  NewerHalf newer_half_;
};

}  // namespace weightpager::policy
