// What pin-stream has to know of a layer above it, which has chunks of its own in the same window:
// a mixture's experts (expert_policy.h).
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "pager/policy/chunk_order.h"

namespace weightpager::policy {

/// As it is: no layer above.
struct LayerAbove {
  /// By chunk: whether the chunk is the layer's. None of them is cyclic. Empty: none are.
  std::vector<bool> is_owned;
  /// How many chunks are the layer's, and how many of them at most are read as one.
  uint32_t chunks = 0;
  uint32_t chunks_of_largest = 0;
  /// The layer sees passes better than pin-stream does, and counts them.
  bool counts_passes = false;
  /// Whether a chunk of the layer shall stay now.
  std::function<bool(ChunkId)> keeps;

  bool owns(ChunkId chunk) const { return chunk < is_owned.size() && is_owned[chunk]; }
};

}  // namespace weightpager::policy
