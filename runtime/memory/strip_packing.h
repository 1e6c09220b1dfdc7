// Offsets as strip packing, best fit (Sekiyama et al., "Profile-guided Memory Optimization for Deep
// Neural Networks", 2018).
//
// Idea. Time to the right, memory upwards: the block's skyline begins flat. Again and again, onto
// its lowest part, of equally low ones the first, goes the tensor that lives longest of those that
// live within that part only. Without one, the part is lifted to the lower of its neighbours.
//
// Cost: the square of the number of tensors.
#pragma once

#include "runtime/memory/plan.h"

namespace weightpager::memory {

/// Of tensors that live equally long: the earliest comes first (which gives the paper's figures),
/// the latest, or the largest.
enum class StripTies { earlier_first, later_first, larger_first };

OffsetPlan pack_strip(Tensors tensors, StripTies ties);

}  // namespace weightpager::memory
