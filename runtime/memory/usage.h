// Which tensors are needed for a while only, from when until when.
//
// Everything that plans activations starts from these records: those of a network of ours
// (activations.h), or of any other from a file (records_file.h).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace weightpager::memory {

/// A tensor is there from the operation that makes it to the last one that needs it, both included.
/// Sizes are from 1 on, as they are to be placed: rounded up for alignment.
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

/// How much is live at an operation: the paper's breadth.
struct Breadth {
  uint32_t operation = 0;
  uint64_t size_bytes = 0;
};

/// Of the operations at which a tensor begins, in execution order. At all others no tensor is live
/// that is not live at the one of these before it.
std::vector<Breadth> breadths(Tensors tensors);

}  // namespace weightpager::memory
