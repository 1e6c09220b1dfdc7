// Shared objects as a flow of least cost (Lee et al., "On-Device Neural Net Inference with Mobile
// GPUs", 2019).
//
// Idea. Each tensor either takes over the object of a tensor that is over before it begins, at the
// cost of the bytes that the object has to grow, or gets a new object, at the cost of its size.
// Each object is taken over by one tensor at most. The cheapest pairs are an assignment problem,
// and chains of pairs are the objects. The cost is not quite the memory: an object that was large
// before and held something small in between is paid for again. So the assignment is optimal, but
// the plan need not be.
//
// Several assignments of least cost may have plans of different size. The result is the one that
// the Hungarian method finds with tensors and predecessors in the order of their numbers.
//
// Cost: the cube of the number of tensors at worst, mostly nearer to its square.
#pragma once

#include "runtime/memory/plan.h"

namespace weightpager::memory {

SharedObjectsPlan share_by_minimum_cost_flow(Tensors tensors);

}  // namespace weightpager::memory
