// Bounds of plans: the memory that every plan needs, and the memory without sharing.
//
// Pisarchyk & Lee (2020), §4.1 and §5.1. Offsets: tensors that are live at one operation lie side
// by side. Shared objects: sort each operation's live tensors by size; the k-th largest object
// holds at least the largest k-th tensor of any operation. Neither bound is always reached: usage
// records say less than the search of exact_shared_objects.h finds out.
//
// Cost: operations × tensors.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/memory/usage.h"

namespace weightpager::memory {

/// Every tensor in memory of its own: the paper's "naive".
uint64_t unshared_bytes(Tensors tensors);

uint64_t offsets_lower_bound_bytes(Tensors tensors);

/// The k-th number is the largest k-th tensor of any operation. There are as many numbers as
/// tensors are live at once.
std::vector<uint64_t> positional_maxima_bytes(Tensors tensors);

/// The sum of the positional maxima.
uint64_t shared_objects_lower_bound_bytes(Tensors tensors);

}  // namespace weightpager::memory
