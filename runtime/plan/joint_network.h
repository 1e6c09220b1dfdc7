// A network as it is planned together with its memory. It is a question of selection (selection.h)
// in which times are those of whole layers, and workspace is what the arena must hold while a layer
// runs.
//
// It also tells what a window needs to know of a selection: how its layers can be cut, and the time
// and bytes of each layer.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/network/network.h"
#include "runtime/pipeline/tiles.h"
#include "runtime/plan/joint_plan.h"
#include "runtime/plan/layer_choice.h"
#include "runtime/plan/network_instance.h"
#include "runtime/plan/profile.h"
#include "runtime/plan/selection.h"

namespace weightpager::plan {

// The time of a change of layout that there is no room for: longer than any network takes, and
// still exact in sums.
inline constexpr double forbidden_ns = 1e14;

/// A selection's totals before it has a window.
struct JointOption {
  std::vector<uint32_t> candidates;
  double compute_ns = 0;
  uint64_t weight_bytes = 0;
  /// The largest layer's weights that cannot come in tiles.
  uint64_t largest_whole_bytes = 0;
};

/// Immutable. Vectors of candidates are by node of instance().
class JointNetwork {
 public:
  /// `network` and `profile` must outlive this; `profile` has all times that the network needs.
  JointNetwork(const network::Network& network, const Profile& profile,
               const JointSettings& settings);

  const network::Network& network() const { return network_; }
  const JointSettings& settings() const { return settings_; }
  const Instance& instance() const { return instance_; }
  /// instance() without activations: workspace alone, and weights as `strategy` counts them.
  Instance without_activations(SelectionScope strategy) const;

  JointOption option_of(std::vector<uint32_t> candidates) const;
  /// The candidates that `infer --window` runs.
  std::vector<uint32_t> in_tiles_everywhere() const;

  const Candidate& chosen(const std::vector<uint32_t>& candidates, uint32_t layer) const;
  std::vector<LayerChoice> choices(const std::vector<uint32_t>& candidates) const;
  /// By layer: its time and bytes, and how it may be cut. Changes of layout count to the layers
  /// that need them.
  std::vector<pipeline::TileableLayer> tileable(const std::vector<uint32_t>& candidates) const;
  /// By layer.
  std::vector<uint64_t> workspaces(const std::vector<uint32_t>& candidates) const;

  /// The bytes of weights that must be in memory all at once; 0 if they can come in tiles.
  uint64_t whole_bytes(uint32_t node, uint32_t candidate) const;
  /// The largest piece of the weights when they are cut as small as possible.
  uint64_t smallest_piece_bytes(uint32_t node, uint32_t candidate) const {
    return smallest_piece_bytes_[node][candidate];
  }
  /// The bytes of a candidate's workspace, and of its pictures in other layouts than Darknet's.
  double bytes_beside_plain(uint32_t node, const Candidate& candidate) const;
  /// The bytes of the edge's tensor in this layout, for the layer that takes it in.
  uint64_t copy_bytes(const Edge& edge, uint32_t layout) const;
  /// The arena's bytes while a layer runs that takes in a copy of the edge's tensor in this layout.
  uint64_t arena_with_change(const Edge& edge, uint32_t layout) const;

 private:
  const network::Layer& layer_of(uint32_t node) const { return network_.layers[node - 1]; }
  pipeline::TileableLayer tileable_layer(uint32_t layer, uint32_t candidate) const;
  void complete_instance();
  void use_whole_nanoseconds();
  void find_smallest_pieces();
  bool is_in_tiles(uint32_t node, uint32_t candidate) const;
  bool is_run_by_infer(uint32_t node, uint32_t candidate) const;
  bool brings_activation(uint32_t node, uint32_t candidate) const;

  const network::Network& network_;
  const Profile& profile_;
  const JointSettings settings_;
  const std::vector<uint64_t> live_bytes_;  // of tensors, by layer
  Instance instance_;
  std::vector<std::vector<uint64_t>> own_workspace_bytes_;  // by node and candidate
  std::vector<std::vector<uint64_t>> smallest_piece_bytes_;
};

}  // namespace weightpager::plan
