// The best plan of shared objects that there is, or the proof that a known one is.
//
// Problem. Greedy strategies end above the bound, and nobody knows whether the bound or the
// strategy is to blame. The problem is NP-hard, but networks are narrow: few tensors are live at
// once.
//
// Idea. Ask which sizes of objects are enough. A choice is made from the largest size downwards:
// how many objects of this size, then of the next. What is chosen so far has to hold the tensors of
// these sizes, whatever follows, and what follows is at least the rest of the positional maxima
// (bounds.h). So choices are tried in the order of that sum; the first complete one is the optimum,
// over plans of any number of objects. Whether objects hold tensors is found by a sweep in
// execution order over all that can be the case: until when each object is taken, objects of the
// same size being alike.
//
// Cost: exponential at worst, so the number of cases is limited and the answer says whether it is
// proved. Milliseconds for the networks that the paper measures.
#pragma once

#include <cstdint>

#include "runtime/memory/plan.h"

namespace weightpager::memory {

struct ExactSharing {
  /// The optimum if `is_proved`; otherwise the plan that was known before.
  SharedObjectsPlan plan;
  bool is_proved = false;
  /// No plan takes less: what the search has got to. The plan's size if it is proved.
  uint64_t lower_bound_bytes = 0;
  /// Cases that were looked at.
  uint64_t cases = 0;
};

/// Looks for plans that are smaller than `known`, at `cases_max` cases at most.
ExactSharing share_exactly(Tensors tensors, SharedObjectsPlan known, uint64_t cases_max);

}  // namespace weightpager::memory
