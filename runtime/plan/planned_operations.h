// Computes a network's layers as a plan says: each convolution by its candidate, tensors in its
// layouts.
//
// Like ops::CpuOperations, which computes what a plan leaves as it is, this owns no tensors: it
// says what each layer needs (memory(), weight_bytes()), and is given pointers.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "pager/base/result.h"
#include "runtime/memory/activations.h"
#include "runtime/network/network.h"
#include "runtime/network/packed_file.h"
#include "runtime/ops/cpu/convolution.h"
#include "runtime/plan/layer_choice.h"

namespace weightpager::plan {

/// Where the time of layers went.
struct RunTimes {
  double convolutions_ns = 0;
  double changes_ns = 0;
  /// Activation functions, pools, routes, …
  double others_ns = 0;

  /// What instances (network_instance.h) have times of.
  double planned_ns() const { return convolutions_ns + changes_ns; }
};

/// What a layer works on.
struct LayerPointers {
  /// By input, in the layout that the layer which made it gave it; the network's is Darknet's.
  std::span<const float* const> inputs;
  /// By input: memory for a copy in this layer's layout, where LayerMemory asks for it.
  std::span<float* const> changed;
  float* output = nullptr;
  float* workspace = nullptr;
};

/// Not thread-safe. Runs on OpenMP's threads.
class PlannedOperations {
 public:
  /// Fails where this machine has no such candidate: the choices were made on another one. The last
  /// layer's is in Darknet's layout. Throws std::bad_alloc.
  static Result<PlannedOperations> make(const network::Network& network,
                                        std::span<const LayerChoice> choices, int threads);
  PlannedOperations(PlannedOperations&&) noexcept;
  PlannedOperations& operator=(PlannedOperations&&) noexcept;
  ~PlannedOperations();

  /// By layer. An output may lie over the first input where memory::lay_out makes it so.
  const std::vector<memory::LayerMemory>& memory() const;
  /// By layer: what its weights are to be packed as.
  const network::WeightForms& weight_forms() const;
  /// Its own memory: what oneDNN's operations need while they run, beside memory().
  uint64_t scratch_bytes() const;
  /// Whether a tile of this layer may begin or end at this channel.
  bool is_tile_boundary(uint32_t layer, uint32_t channel) const;
  ops::Channels all_channels(uint32_t layer) const;

  /// From plain weights to those that run() takes; `packed` begins at a multiple of
  /// ops::candidate_alignment.
  Status pack(uint32_t layer, const float* plain, float* packed);

  /// Of what is computed by a candidate: all channels. Weights as packed; with plain ones those of
  /// a tile.
  Status run(uint32_t layer, ops::Channels channels, const ops::TileWeights& weights,
             const LayerPointers& pointers, RunTimes& times);

 private:
  class Implementation;
  explicit PlannedOperations(std::unique_ptr<Implementation> implementation);

  std::unique_ptr<Implementation> implementation_;
};

/// To pack weights for these operations, which outlive the packing.
network::PackOptions packing_for(PlannedOperations& operations, const std::string& weights_path,
                                 const std::string& output_path);

}  // namespace weightpager::plan
