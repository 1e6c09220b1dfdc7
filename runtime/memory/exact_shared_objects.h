// The best plan of shared objects, or the proof that a known plan is the best.
//
// Problem. Greedy strategies end above the bound, and then either the bound or the strategy can be
// improved. The problem is NP-hard, but networks are narrow: few tensors are live at once.
//
// Idea. Ask which sizes of objects are enough. The search chooses from the largest size downwards:
// how many objects of this size, then of the next. The objects chosen so far have to hold the
// tensors of these sizes, whatever follows. The objects that follow need at least the rest of the
// positional maxima (bounds.h). So choices are tried in the order of that sum, and the first
// complete one is the optimum over plans of any number of objects. A sweep in execution order finds
// out whether objects hold tensors. It goes over all cases that are possible. A case says until
// when each object is taken, and objects of the same size are alike.
//
// Cost: exponential at worst. So the number of cases is limited, and the answer says whether it is
// proved. Milliseconds for the networks that the paper measures.
#pragma once

#include <cstdint>

#include "runtime/memory/plan.h"

namespace weightpager::memory {

struct ExactSharing {
  /// The optimum if `is_proved`; otherwise `known`.
  SharedObjectsPlan plan;
  bool is_proved = false;
  /// The lower bound that the search has proved. The plan's size if `is_proved`.
  uint64_t lower_bound_bytes = 0;
  /// The cases that were looked at.
  uint64_t cases = 0;
};

/// Looks for plans that are smaller than `known`, at `cases_max` cases at most.
ExactSharing share_exactly(Tensors tensors, SharedObjectsPlan known, uint64_t cases_max);

}  // namespace weightpager::memory
