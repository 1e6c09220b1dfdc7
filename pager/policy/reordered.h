// An order that was expected, corrected by what was seen. Cost: O(N).
#pragma once

#include <span>
#include <vector>

#include "pager/policy/chunk_order.h"

namespace weightpager::policy {

/// `order` as `seen` has it. Of its chunks, those that `seen` lacks stay behind the one that they
/// followed before; chunks of `seen` that are not in `order` are left out. No duplicates in either.
std::vector<ChunkId> reordered(std::span<const ChunkId> order, std::span<const ChunkId> seen);

}  // namespace weightpager::policy
