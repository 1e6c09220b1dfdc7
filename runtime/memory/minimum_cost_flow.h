// Shared objects as a flow of least cost (Lee et al., "On-Device Neural Net Inference with Mobile
// GPUs", 2019).
//
// Idea. Each tensor takes over the object of one that is over before it begins, at the cost of what
// the object has to grow, or gets a new object at the cost of its size; each is followed by one at
// most. The cheapest such pairs are an assignment problem. Chains of pairs are the objects. The
// cost is not quite the memory: an object that was large before and held something small in between
// is paid for again. So this is optimal for its model and not for the plan.
//
// Of several assignments of least cost, which have plans of different size, the one is taken that
// the Hungarian method finds with tensors and predecessors in the order of their numbers.
//
// Cost: the cube of the number of tensors at worst, mostly nearer to its square.
#pragma once

#include "runtime/memory/plan.h"

namespace weightpager::memory {

SharedObjectsPlan share_by_minimum_cost_flow(Tensors tensors);

}  // namespace weightpager::memory
