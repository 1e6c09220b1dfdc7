// Runs a network as a plan says: each convolution by its candidate, tensors in its layouts.
//
// All weights are in memory, packed; every layer has its output in memory of its own. So this is
// for finding out whether planned times and results are true, not for saving memory.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "pager/base/result.h"
#include "runtime/network/network.h"
#include "runtime/ops/cpu/convolution.h"
#include "runtime/plan/layer_choice.h"
#include "runtime/plan/planned_operations.h"

namespace weightpager::plan {

/// Weights and biases of a whole layer, folded; asked for once per layer that has some.
using LayerWeights = std::function<ops::TileWeights(uint32_t layer)>;

/// One thread at a time, always the same.
class PlannedNetwork {
 public:
  /// `network` must outlive this.
  static Result<PlannedNetwork> make(const network::Network& network,
                                     std::span<const LayerChoice> choices,
                                     const LayerWeights& weights, int threads);
  PlannedNetwork(PlannedNetwork&&) noexcept;
  ~PlannedNetwork();

  /// `input`: of the network's input shape.
  Result<RunTimes> run(const float* input);

  /// Of the last run, in Darknet's layout.
  Result<std::vector<float>> output(uint32_t layer) const;

  /// Packed weights and biases, and the workspace that convolutions share: what was planned.
  uint64_t weight_bytes() const;
  uint64_t workspace_bytes() const;

 private:
  class Implementation;
  explicit PlannedNetwork(std::unique_ptr<Implementation> implementation);

  std::unique_ptr<Implementation> implementation_;
};

}  // namespace weightpager::plan
