// Shared objects, greedy by size improved (Pisarchyk & Lee, §4.4).
//
// Problem. Greedy by size takes a tensor of 100 KiB before one of 99, though both would fit equally
// well in either place. So it loses a better fit in time.
//
// Idea. Sizes are split into stages by the positional maxima (bounds.h): sizes equal to the first,
// sizes between it and the second, sizes equal to the second, and so on. Within a stage, sizes do
// not count. Of all pairs of a tensor and a suitable object, the next is the one that leaves the
// object idle for the shortest time.
//
// The paper's text leaves three things open, and plans differ by them: SizeImprovedRules.
//
// Cost: the square of the number of tensors, times the number of objects.
#pragma once

#include "runtime/memory/orders.h"
#include "runtime/memory/plan.h"

namespace weightpager::memory {

struct SizeImprovedRules {
  /// A tensor without a suitable object gets a new one before the stage's pairs are made, or after.
  enum class Unsuited { first, last } unsuited = Unsuited::first;
  /// Idle is the time to the nearest tensor of the object, or only to the one before.
  enum class Idle { nearest, before } idle = Idle::nearest;
  /// Of equally good pairs, and of tensors without object, the larger tensor comes first, and
  /// `ties` counts among equal sizes. If false, `ties` alone counts.
  bool larger_first = true;
  Ties ties = Ties::earlier_first;
};

SharedObjectsPlan share_by_size_improved(Tensors tensors, const SizeImprovedRules& rules,
                                         const Earlier<SharedObjectsPlan>& earlier = {});

}  // namespace weightpager::memory
