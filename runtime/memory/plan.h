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

/// What a plan of either kind takes.
inline uint64_t bytes_of(const OffsetPlan& plan) { return plan.total_bytes; }
inline uint64_t bytes_of(const SharedObjectsPlan& plan) { return plan.total_bytes(); }

/// A plan to go on from: tensors that stay where it has them. The block, or each object, stays at
/// least as large as it is. By default there is nothing yet.
template <typename Plan>
struct Earlier {
  /// Of the first tensors, or of all.
  Plan plan;
  /// By tensor; empty: none stays.
  std::vector<bool> is_kept;

  bool keeps(uint32_t tensor) const { return !is_kept.empty() && is_kept[tensor]; }
};

}  // namespace weightpager::memory
