// Where tensors lie that are needed for a while only: the two kinds of plans.
//
// Problem. Of all activations of a network only a few are needed at any time. Laid out side by side
// they take many times the memory.
//
// Idea. Pisarchyk & Lee, "Efficient Memory Management for Deep Neural Net Inference" (2020): either
// all tensors share one block, each at an offset, or each goes into one of several objects, where a
// block cannot be cut (textures of a GPU, buffers of another library). Strategies are one file
// each; portfolio.h tries them all.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/memory/usage.h"

namespace weightpager::memory {

/// Tensors in one block.
struct OffsetPlan {
  /// By tensor. Sums of sizes: where all are multiples of an alignment, so are they.
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
