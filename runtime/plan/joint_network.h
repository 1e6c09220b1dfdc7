// A network as it is planned together with its memory: a question of selection (selection.h) in
// which times are those of whole layers, and workspace is what the arena must hold meanwhile.
//
// What a window needs to know of a selection comes from here, too: how its layers can be cut, and
// what each piece takes.
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

// What a change of layout takes for which there is no room. More than any network, and still exact
// in sums.
inline constexpr double forbidden_ns = 1e14;

/// What a selection comes to before it has a window.
struct JointOption {
  std::vector<uint32_t> candidates;
  double compute_ns = 0;
  uint64_t weight_bytes = 0;
  /// The largest that cannot come in tiles.
  uint64_t largest_whole_bytes = 0;
};

/// Immutable. Candidates are always by node, and of instance().
class JointNetwork {
 public:
  /// `network` and `profile`, which has everything that it needs, outlive this.
  JointNetwork(const network::Network& network, const Profile& profile,
               const JointSettings& settings);

  const network::Network& network() const { return network_; }
  const JointSettings& settings() const { return settings_; }
  const Instance& instance() const { return instance_; }
  /// The same without activations: workspace alone, and weights by strategy.
  Instance without_activations(SelectionScope strategy) const;

  JointOption option_of(std::vector<uint32_t> candidates) const;
  /// What `infer --window` runs.
  std::vector<uint32_t> in_tiles_everywhere() const;

  const Candidate& chosen(const std::vector<uint32_t>& candidates, uint32_t layer) const;
  std::vector<LayerChoice> choices(const std::vector<uint32_t>& candidates) const;
  /// Times and bytes of layers, changes of layout with those that need them, and how they may be
  /// cut.
  std::vector<pipeline::TileableLayer> tileable(const std::vector<uint32_t>& candidates) const;
  /// By layer.
  std::vector<uint64_t> workspaces(const std::vector<uint32_t>& candidates) const;

  /// Of weights that must be in memory all at once; 0 of those that come in tiles.
  uint64_t whole_bytes(uint32_t node, uint32_t candidate) const;
  /// Of the pieces that weights come in, the largest, when they are cut as small as it goes.
  uint64_t smallest_piece_bytes(uint32_t node, uint32_t candidate) const {
    return smallest_piece_bytes_[node][candidate];
  }
  /// What a candidate's workspace takes, and its pictures in other layouts than Darknet's.
  double bytes_beside_plain(uint32_t node, const Candidate& candidate) const;
  /// Of the edge's tensor, for the layer that takes it in.
  uint64_t copy_bytes(const Edge& edge, uint32_t layout) const;
  /// While a layer runs that takes in a copy of the edge's tensor in this layout.
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
