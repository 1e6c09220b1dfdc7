// Shared objects, greedy by size improved (Pisarchyk & Lee, §4.4).
//
// Problem. Greedy by size treats a tensor of 100 KiB before one of 99, though both would do as well
// in either place, and what fits in time is then lost.
//
// Idea. Sizes are split into stages by the positional maxima (bounds.h): those equal to the first,
// those between it and the second, those equal to the second, and so on. Within a stage, sizes do
// not count: of all tensors and suitable objects the pair goes together that leaves the object idle
// for the shortest time.
//
// The paper's text leaves three things open, and plans differ by them: SizeImprovedRules.
//
// Cost: the square of the number of tensors, times the number of objects.
#pragma once

#include "runtime/memory/orders.h"
#include "runtime/memory/plan.h"

namespace weightpager::memory {

struct SizeImprovedRules {
  /// A tensor that no object suits gets a new object before the stage's pairs are made, or after.
  enum class Unsuited { first, last } unsuited = Unsuited::first;
  /// Idle is the time to the nearest tensor of the object, or to the one before only.
  enum class Idle { nearest, before } idle = Idle::nearest;
  /// Of equally good pairs, and of tensors without object, the larger tensor comes first, then this
  /// counts; or this alone.
  bool larger_first = true;
  Ties ties = Ties::earlier_first;
};

SharedObjectsPlan share_by_size_improved(Tensors tensors, const SizeImprovedRules& rules);

}  // namespace weightpager::memory
