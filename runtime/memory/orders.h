// In which order greedy strategies take the tensors, and who comes first among equals.
//
// Every greedy strategy of Pisarchyk & Lee is an order and a rule for the place of the next tensor
// (shared_objects.h, offsets.h). The paper does not say which of equal tensors comes first, and
// plans differ by it: by up to a third in what the paper's tables show. So ties are a parameter.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/memory/usage.h"

namespace weightpager::memory {

/// Of equals, the lower number comes first (of operations: the one that runs first), or the higher.
enum class Ties { earlier_first, later_first };

/// Tensors' numbers.
using Order = std::vector<uint32_t>;

/// The largest first.
Order by_size(Tensors tensors, Ties ties);

/// Operations by what is live at them, the most first; at each, the largest tensor first.
Order by_breadth(Tensors tensors, Ties operation_ties, Ties tensor_ties);

/// As they are made.
Order by_execution(Tensors tensors);

}  // namespace weightpager::memory
