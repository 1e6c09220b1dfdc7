// Shared objects, greedily: each tensor in turn goes into an object that is free while the tensor
// is live, or into a new one.
//
// Three strategies of Pisarchyk & Lee's Table 1 are an order (orders.h) and a choice among the
// suitable objects:
//   greedy by size      by_size,      largest: what gives the paper's figures; its text says
//                                     `tightest`
//   greedy by breadth   by_breadth,   tightest (algorithm 1)
//   greedy of Lee 2019  by_execution, nearest
// Greedy by size improved is in size_improved.h, Lee's other strategy in minimum_cost_flow.h.
//
// Cost: the square of the number of tensors.
#pragma once

#include "runtime/memory/orders.h"
#include "runtime/memory/plan.h"

namespace weightpager::memory {

/// Which suitable object takes a tensor. Of equal objects the oldest; without any, a new one.
enum class Fit {
  /// The largest. It grows if the tensor is larger.
  largest,
  /// The smallest that the tensor fits into; if there is none, the largest, which grows.
  tightest,
  /// The one whose size differs least, of two the larger. It grows if the tensor is larger.
  nearest,
};

/// Passes over the tensors of `order` that `earlier` keeps.
SharedObjectsPlan share_in_order(Tensors tensors, const Order& order, Fit fit,
                                 const Earlier<SharedObjectsPlan>& earlier = {});

}  // namespace weightpager::memory
