// What pin-stream has to know of a layer above it, which has chunks of its own in the same window:
// a mixture's experts (expert_policy.h).
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "pager/policy/chunk_order.h"

namespace weightpager::policy {

/// The default value stands for no layer above.
struct LayerAbove {
  /// By chunk: whether the layer owns it. None of the layer's chunks is cyclic. Empty: the layer
  /// owns none.
  std::vector<bool> is_owned;
  /// How many chunks the layer owns, and how many of them it reads as one, at most.
  uint32_t chunks = 0;
  uint32_t chunks_of_largest = 0;
  /// The layer sees passes better than pin-stream does, and counts them.
  bool counts_passes = false;
  /// Whether a chunk of the layer shall stay now.
  std::function<bool(ChunkId)> keeps;

  bool owns(ChunkId chunk) const { return chunk < is_owned.size() && is_owned[chunk]; }
};

}  // namespace weightpager::policy
