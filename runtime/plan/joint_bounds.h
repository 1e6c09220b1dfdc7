// The least time that a selection can take in a window, before any window is tried.
//
// By overlap: weights that are not pinned are read in each pass, beside the kernels at best
// (joint_plan.h has the formula). By order: weights reach memory in the order of the layers,
// through a ring or pinned, so a layer late in the network waits for everything that must be read
// before it.
//
// Cost: some operations for the first bound; a pass over the layers for the second.
#pragma once

#include <cstdint>
#include <span>

#include "runtime/plan/joint_network.h"

namespace weightpager::plan {

class JointBounds {
 public:
  /// `network` outlives this.
  explicit JointBounds(const JointNetwork& network) : network_(network) {}

  double overlap_ns(const JointOption& option, uint64_t window_bytes) const;
  /// Infinite if there are no options.
  double least_overlap_ns(std::span<const JointOption> options, uint64_t window_bytes) const;
  /// The greater of both bounds. The second is not computed where overlap alone reaches
  /// `enough_ns`.
  double bound_ns(const JointOption& option, uint64_t window_bytes, double enough_ns) const;
  /// The bound by order for every selection.
  double any_in_order_ns(uint64_t window_bytes) const;

 private:
  std::vector<pipeline::UnitCosts> layers_of(const JointOption& option) const;
  std::vector<pipeline::UnitCosts> ideal_layers() const;
  pipeline::UnitCosts layer_costs(uint64_t weight_bytes, double compute_ns) const;
  double in_order_ns(const std::vector<pipeline::UnitCosts>& layers, uint64_t window_bytes) const;

  const JointNetwork& network_;
};

}  // namespace weightpager::plan
