// Where tensors lie that are needed only for a while: the two kinds of plans.
//
// Problem. Only a few of a network's activations are needed at any time. If all lie side by side,
// they take many times the memory.
//
// Idea. Pisarchyk & Lee, "Efficient Memory Management for Deep Neural Net Inference" (2020). Either
// all tensors share one block, each at an offset. Or each tensor goes into one of several objects,
// where a block cannot be cut (textures of a GPU, buffers of another library). Each strategy has a
// file; portfolio.h tries them all.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/memory/usage.h"

namespace weightpager::memory {

/// Tensors in one block.
struct OffsetPlan {
  /// By tensor. Offsets are sums of sizes: if all sizes are multiples of an alignment, offsets are,
  /// too.
  std::vector<uint64_t> offset_bytes;
  uint64_t total_bytes = 0;
};

/// Tensors in objects that hold one at a time.
struct SharedObjectsPlan {
  /// By tensor.
  std::vector<uint32_t> object;
  /// By object: the size of the largest tensor that it ever holds.
  std::vector<uint64_t> object_bytes;

  uint64_t total_bytes() const;
};

}  // namespace weightpager::memory
