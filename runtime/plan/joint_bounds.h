// What a selection takes at least in a window, before any window is tried.
//
// By overlap: what is not pinned is read in each pass, beside the kernels at best (joint_plan.h has
// the formula). By order: weights are there by their window, whether in a ring or pinned, so a
// layer late in the network waits for all that must be read before it.
//
// Cost: the first some operations; the second a pass over the layers.
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
  /// Of no options: infinite.
  double least_overlap_ns(std::span<const JointOption> options, uint64_t window_bytes) const;
  /// The greater of both; the other is not looked at where overlap alone is `enough_ns`.
  double bound_ns(const JointOption& option, uint64_t window_bytes, double enough_ns) const;
  /// Of any selection, in order.
  double any_in_order_ns(uint64_t window_bytes) const;

 private:
  std::vector<pipeline::UnitCosts> layers_of(const JointOption& option) const;
  std::vector<pipeline::UnitCosts> ideal_layers() const;
  pipeline::UnitCosts layer_costs(uint64_t weight_bytes, double compute_ns) const;
  double in_order_ns(const std::vector<pipeline::UnitCosts>& layers, uint64_t window_bytes) const;

  const JointNetwork& network_;
};

}  // namespace weightpager::plan
