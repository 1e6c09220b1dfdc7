// Offsets in one block, greedily. Each tensor in turn goes into the smallest gap that it fits into,
// between the placed tensors that are live at the same time. If there is no such gap, it goes
// behind these.
//
// Algorithm 3 of Pisarchyk & Lee. Three strategies of their Table 2 are this algorithm: greedy by
// size with the order by_size, by breadth with by_breadth, and Lee's greedy with by_execution
// (orders.h).
//
// Cost: the square of the number of tensors.
#pragma once

#include "runtime/memory/orders.h"
#include "runtime/memory/plan.h"

namespace weightpager::memory {

/// Passes over the tensors of `order` that `earlier` keeps.
OffsetPlan place_in_order(Tensors tensors, const Order& order,
                          const Earlier<OffsetPlan>& earlier = {});

}  // namespace weightpager::memory
