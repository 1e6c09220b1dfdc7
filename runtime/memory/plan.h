// Where tensors lie that are needed for a while only.
//
// Problem. Of all activations of a network only a few are needed at any time. Laid out side by side
// they take many times the memory.
//
// Idea. Pisarchyk & Lee, "Efficient Memory Management for Deep Neural Net Inference" (2020),
// algorithm 3: the largest first, each into the smallest gap that it fits into between those placed
// already that are needed at the same time.
//
// Cost. The square of the number of tensors, once per network: 1 ms for 300.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace weightpager::memory {

/// A tensor is there from the operation that makes it to the last one that needs it, both included.
struct TensorUsage {
  uint32_t first_operation = 0;
  uint32_t last_operation = 0;
  uint64_t size_bytes = 0;

  bool is_live_with(const TensorUsage& other) const {
    return first_operation <= other.last_operation && other.first_operation <= last_operation;
  }
};

struct ActivationPlan {
  /// By tensor. Multiples of the sizes' greatest common divisor: round sizes for alignment.
  std::vector<uint64_t> offset_bytes;
  uint64_t total_bytes = 0;
  /// What the operation needs for which most is live. No plan takes less.
  uint64_t lower_bound_bytes = 0;
};

ActivationPlan plan_activations(std::span<const TensorUsage> tensors);

/// Two tensors that are live at the same time, in the same bytes.
struct Overlap {
  uint32_t first = 0;
  uint32_t second = 0;
};
/// Every overlap of a plan, and every tensor that reaches beyond its end (as an overlap with
/// itself).
std::vector<Overlap> find_overlaps(std::span<const TensorUsage> tensors,
                                   const ActivationPlan& plan);

}  // namespace weightpager::memory
