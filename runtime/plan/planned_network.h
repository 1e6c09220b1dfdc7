// Runs a network as a plan says, with everything in memory: each convolution by its candidate,
// tensors in its layouts, outputs in an arena as in an inference.
//
// This tells how long layers take in a run, and whether planned times and results are true. It
// saves no memory.
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

/// The times of a pass, by layer.
using Pass = std::vector<RunTimes>;

/// Weights and biases of a whole layer.
using WeightsOfLayers = std::function<ops::TileWeights(uint32_t layer)>;

/// Not thread-safe; always use it from the same thread.
class PlannedNetwork {
 public:
  /// `network` must outlive this. Fails without memory, or where this machine lacks a candidate.
  static Result<PlannedNetwork> make(const network::Network& network,
                                     std::span<const LayerChoice> choices, int threads);

  /// `input` has the network's input shape. `packed` is called for each layer when its turn comes,
  /// also for a layer without weights; `after` is called when the layer has run.
  Result<Pass> run(std::span<const float> input, const WeightsOfLayers& packed,
                   const std::function<void(uint32_t layer)>& after = {});

  /// In Darknet's layout. The layer must have just run, or be the last one.
  Result<std::vector<float>> output(uint32_t layer) const;

  PlannedOperations& operations() { return operations_; }
  /// The planned workspace, which convolutions share.
  uint64_t workspace_bytes() const;

 private:
  PlannedNetwork(const network::Network& network, std::span<const LayerChoice> choices,
                 PlannedOperations operations, memory::Activations activations);

  const network::Network* network_;
  std::vector<LayerChoice> choices_;
  PlannedOperations operations_;
  memory::Activations activations_;
};

/// All of a network's weights, in the forms that a planned network takes.
class PackedWeights {
 public:
  /// `weights` is called once for each layer that has weights, and gives them folded and in
  /// Darknet's order. They need to stay valid until its next call.
  static Result<PackedWeights> make(const network::Network& network, PlannedOperations& operations,
                                    const WeightsOfLayers& weights);

  ops::TileWeights of(uint32_t layer) const {
    return {biases_[layer].data(), packed_[layer].data()};
  }
  /// Biases included: the planned size.
  uint64_t size_bytes() const { return size_bytes_; }

 private:
  // By layer.
  std::vector<AlignedFloats> packed_;
  std::vector<std::vector<float>> biases_;
  uint64_t size_bytes_ = 0;
};

}  // namespace weightpager::plan
