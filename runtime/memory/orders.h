// The orders in which greedy strategies take the tensors, and the rules for equals.
//
// Every greedy strategy of Pisarchyk & Lee is an order and a rule for the place of the next tensor
// (shared_objects.h, offsets.h). The paper does not say which of equal tensors comes first. Plans
// differ by that, by up to a third for the networks of the paper's tables. So ties are a parameter.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/memory/usage.h"

namespace weightpager::memory {

/// Of equals, the lower number comes first, or the higher one. Operations have their numbers by
/// when they run.
enum class Ties { earlier_first, later_first };

/// Numbers of tensors.
using Order = std::vector<uint32_t>;

/// The largest first.
Order by_size(Tensors tensors, Ties ties);

/// Operations by the bytes that are live at them, the most first; at each, the largest tensor
/// first.
Order by_breadth(Tensors tensors, Ties operation_ties, Ties tensor_ties);

/// In the order in which they are made.
Order by_execution(Tensors tensors);

}  // namespace weightpager::memory
