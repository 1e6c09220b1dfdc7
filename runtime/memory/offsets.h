// Offsets in one block, greedily: one tensor after the other into the smallest gap that it fits
// into between those placed already that are live at the same time; without one, behind them.
//
// Algorithm 3 of Pisarchyk & Lee, and with it three strategies of their Table 2: greedy by size, by
// breadth, and Lee's greedy are this with orders by_size, by_breadth and by_execution (orders.h).
//
// Cost: the square of the number of tensors.
#pragma once

#include "runtime/memory/orders.h"
#include "runtime/memory/plan.h"

namespace weightpager::memory {

OffsetPlan place_in_order(Tensors tensors, const Order& order);

}  // namespace weightpager::memory
