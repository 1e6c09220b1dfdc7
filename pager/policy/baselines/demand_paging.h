// `demand`: reads only chunks that are touched; the clock says which chunk goes.
//
// What a kernel without readahead would do, with larger pages. Second chance: the hand goes round
// what is resident, oldest first. There is no accessed bit to look at, so the hand hides a chunk
// that was used; if it is touched before the hand comes back, it gets another round. Cost: O(1) a
// touch, a round of the hand at worst for an eviction.
#pragma once

#include <vector>

#include "pager/policy/baselines/policy_base.h"

namespace weightpager::policy {

class DemandPaging final : public PolicyBase {
 public:
  using PolicyBase::PolicyBase;

 private:
  void use_order() override { is_referenced_.assign(table_.chunks(), false); }
  // The list is the clock: the hand points at its back. Touches do not reorder it.
  void touched(ChunkId chunk) override { is_referenced_[chunk] = true; }
  Action victim(bool for_demand) override;

  std::vector<bool> is_referenced_;
};

}  // namespace weightpager::policy
