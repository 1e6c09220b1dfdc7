// Records of tensors that are needed only for a while: from when until when.
//
// All planning of activations starts from these records: of a network of ours (activations.h), or
// of any other network, from a file (records_file.h).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace weightpager::memory {

/// A tensor is there from the operation that makes it to the last one that needs it, both included.
/// Sizes are at least 1, and rounded up for alignment as the tensors are to be placed.
struct TensorUsage {
  uint32_t first_operation = 0;
  uint32_t last_operation = 0;
  uint64_t size_bytes = 0;

  bool is_live_with(const TensorUsage& other) const {
    return first_operation <= other.last_operation && other.first_operation <= last_operation;
  }
};

/// Tensors by number. Of equals the lower number counts as the earlier one.
using Tensors = std::span<const TensorUsage>;

/// The bytes that are live at an operation: the paper's breadth.
struct Breadth {
  uint32_t operation = 0;
  uint64_t size_bytes = 0;
};

/// The breadths of the operations at which a tensor begins, in execution order. At any other
/// operation, every live tensor is also live at the last of these operations before it.
std::vector<Breadth> breadths(Tensors tensors);

}  // namespace weightpager::memory
