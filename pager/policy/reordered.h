// Corrects an expected order by the order that was seen. Cost: O(N).
#pragma once

#include <span>
#include <vector>

#include "pager/policy/chunk_order.h"

namespace weightpager::policy {

/// The chunks of `order`, in the order of `seen`. Chunks that `seen` lacks stay behind the chunk
/// that they follow in `order`. Chunks of `seen` that are not in `order` are left out; those that
/// `seen` has more than once are visited as often. `order` has no duplicates.
std::vector<ChunkId> reordered(std::span<const ChunkId> order, std::span<const ChunkId> seen);

}  // namespace weightpager::policy
