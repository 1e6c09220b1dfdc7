// Computes a network's layers as a plan says: each convolution by its candidate, tensors in its
// layouts.
//
// Like ops::CpuOperations, which computes the layers that a plan leaves plain, this owns no
// tensors: it says what each layer needs (memory(), weight_forms()), and is given pointers.
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

/// The time of layers, by kind of work.
struct RunTimes {
  double convolutions_ns = 0;
  double changes_ns = 0;
  /// Activation functions, pools, routes, …
  double others_ns = 0;

  /// The times that instances (network_instance.h) have.
  double planned_ns() const { return convolutions_ns + changes_ns; }
};

/// The tensors of a layer.
struct LayerPointers {
  /// By input, in the layout of the layer that made it; the network's input is in Darknet's.
  std::span<const float* const> inputs;
  /// By input: memory for a copy in this layer's layout, where LayerMemory says that it is needed.
  std::span<float* const> changed;
  float* output = nullptr;
  float* workspace = nullptr;
};

/// Not thread-safe. Runs on OpenMP's threads.
class PlannedOperations {
 public:
  /// Fails where this machine lacks a candidate: the choices were then made on another machine. The
  /// last layer's output must be in Darknet's layout. Throws std::bad_alloc.
  static Result<PlannedOperations> make(const network::Network& network,
                                        std::span<const LayerChoice> choices, int threads);
  PlannedOperations(PlannedOperations&&) noexcept;
  PlannedOperations& operator=(PlannedOperations&&) noexcept;
  ~PlannedOperations();

  /// By layer. An output may lie over the first input where memory::lay_out makes it so.
  const std::vector<memory::LayerMemory>& memory() const;
  /// By layer: the form that its weights are to be packed in.
  const network::WeightForms& weight_forms() const;
  /// The memory that these operations own: scratch for oneDNN's code while it runs, beside
  /// memory().
  uint64_t scratch_bytes() const;
  /// Whether a tile of this layer may begin or end at this channel.
  bool is_tile_boundary(uint32_t layer, uint32_t channel) const;
  ops::Channels all_channels(uint32_t layer) const;

  /// Packs plain weights into the form that run() takes. `packed` begins at a multiple of
  /// ops::candidate_alignment.
  Status pack(uint32_t layer, const float* plain, float* packed);

  /// A layer that a candidate computes runs with all channels and its packed weights; a layer with
  /// plain weights runs a tile, with the weights of that tile.
  Status run(uint32_t layer, ops::Channels channels, const ops::TileWeights& weights,
             const LayerPointers& pointers, RunTimes& times);

 private:
  class Implementation;
  explicit PlannedOperations(std::unique_ptr<Implementation> implementation);

  std::unique_ptr<Implementation> implementation_;
};

/// Options to pack weights for these operations, which must outlive the packing.
network::PackOptions packing_for(PlannedOperations& operations, const std::string& weights_path,
                                 const std::string& output_path);

}  // namespace weightpager::plan
