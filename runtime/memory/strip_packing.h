// Offsets as strip packing, best fit (Sekiyama et al., "Profile-guided Memory Optimization for Deep
// Neural Networks", 2018).
//
// Idea. Time goes to the right, memory upwards, and the block's skyline begins flat. The next
// tensor always goes onto the lowest part of the skyline, the first of equally low ones. It is the
// tensor that lives longest of those that live within that part only. If there is none, the part is
// lifted to the lower of its neighbours.
//
// Cost: the square of the number of tensors.
#pragma once

#include "runtime/memory/plan.h"

namespace weightpager::memory {

/// Of tensors that live equally long, the earliest comes first (this gives the paper's figures), or
/// the latest, or the largest.
enum class StripTies { earlier_first, later_first, larger_first };

OffsetPlan pack_strip(Tensors tensors, StripTies ties);

}  // namespace weightpager::memory
