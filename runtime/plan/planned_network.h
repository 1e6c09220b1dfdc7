// Runs a network as a plan says, with everything in memory: each convolution by its candidate,
// tensors in its layouts, outputs in an arena as in an inference.
//
// So this is for finding out what layers take in a run, and whether planned times and results are
// true, not for saving memory.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "pager/base/result.h"
#include "runtime/memory/activations.h"
#include "runtime/network/network.h"
#include "runtime/ops/cpu/convolution.h"
#include "runtime/plan/aligned_floats.h"
#include "runtime/plan/layer_choice.h"
#include "runtime/plan/planned_operations.h"

namespace weightpager::plan {

/// A pass, by layer.
using Pass = std::vector<RunTimes>;

/// Weights and biases of a whole layer.
using WeightsOfLayers = std::function<ops::TileWeights(uint32_t layer)>;

/// One thread at a time, always the same.
class PlannedNetwork {
 public:
  /// `network` must outlive this. Fails without memory, or where this machine cannot compute so.
  static Result<PlannedNetwork> make(const network::Network& network,
                                     std::span<const LayerChoice> choices, int threads);

  /// `input`: of the network's input shape. `packed` is asked for each layer's weights, also if it
  /// has none, when its turn comes; `after` is called when it has run.
  Result<Pass> run(std::span<const float> input, const WeightsOfLayers& packed,
                   const std::function<void(uint32_t layer)>& after = {});

  /// In Darknet's layout; of a layer that has just run, or is the last.
  Result<std::vector<float>> output(uint32_t layer) const;

  PlannedOperations& operations() { return operations_; }
  /// That convolutions share: what was planned.
  uint64_t workspace_bytes() const;

 private:
  PlannedNetwork(const network::Network& network, std::span<const LayerChoice> choices,
                 PlannedOperations operations, memory::Activations activations);

  const network::Network* network_;
  std::vector<LayerChoice> choices_;
  PlannedOperations operations_;
  memory::Activations activations_;
};

/// All of a network's weights, as a planned network takes them.
class PackedWeights {
 public:
  /// `weights` is asked once for those of each layer that has some: folded, in Darknet's order,
  /// valid until the next is asked for.
  static Result<PackedWeights> make(const network::Network& network, PlannedOperations& operations,
                                    const WeightsOfLayers& weights);

  ops::TileWeights of(uint32_t layer) const {
    return {biases_[layer].data(), packed_[layer].data()};
  }
  /// With biases: what was planned.
  uint64_t size_bytes() const { return size_bytes_; }

 private:
  // By layer.
  std::vector<AlignedFloats> packed_;
  std::vector<std::vector<float>> biases_;
  uint64_t size_bytes_ = 0;
};

}  // namespace weightpager::plan
