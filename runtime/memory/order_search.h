// A better order for placing tensors (offsets.h), by trial.
//
// Problem. Where greedy orders end above the bound, a small change of the order often reaches it:
// two tensors swap their turns.
//
// Idea. Two turns are swapped, and the tensors are placed anew. The swap is kept unless the block
// has become larger. Random numbers come from a fixed seed, so the same tensors get the same plan.
//
// Cost: a placement, the square of the number of tensors, per trial.
#pragma once

#include <cstdint>
#include <functional>

#include "runtime/memory/offsets.h"

namespace weightpager::memory {

struct OrderSearch {
  OffsetPlan plan;
  /// The number of placements that were made.
  uint64_t trials = 0;
};

/// What is to be small in a plan, besides the block.
using AlsoSmall = std::function<uint64_t(const OffsetPlan&)>;

/// Begins with `order`; ends at `enough_bytes` or after `trials_max` trials. Never worse than
/// place_in_order(tensors, order, earlier). With `also_small` it keeps, of equally large blocks,
/// the one for which that is least, and goes on at `enough_bytes`.
OrderSearch place_by_swaps(Tensors tensors, Order order, uint64_t enough_bytes, uint64_t trials_max,
                           const Earlier<OffsetPlan>& earlier = {},
                           const AlsoSmall& also_small = {});

}  // namespace weightpager::memory
