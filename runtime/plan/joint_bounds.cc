#include "runtime/plan/joint_bounds.h"

#include <algorithm>
#include <limits>

#include "runtime/pipeline/timeline.h"
#include "runtime/plan/series_parallel.h"

namespace weightpager::plan {

using pipeline::UnitCosts;

double JointBounds::overlap_ns(const JointOption& option, uint64_t window_bytes) const {
  const JointSettings& settings = network_.settings();
  const uint64_t read_bytes = option.weight_bytes - std::min(option.weight_bytes, window_bytes);
  const auto bytes = static_cast<double>(read_bytes);
  // The schedule of pieces leaves out less than a nanosecond of each layer's read.
  const double read_ns =
      settings.read_ns(bytes) - static_cast<double>(network_.network().layers.size());
  return std::max(option.compute_ns + bytes * settings.taken.ns_per_byte, read_ns);
}

double JointBounds::least_overlap_ns(std::span<const JointOption> options,
                                     uint64_t window_bytes) const {
  double least_ns = std::numeric_limits<double>::infinity();
  if (!options.empty() && !is_exact(network_.instance())) {
    // There may be other points between the front's ends: none is smaller than the first or faster
    // than the last.
    JointOption ideal = options.back();
    ideal.weight_bytes = options.front().weight_bytes;
    return overlap_ns(ideal, window_bytes);
  }
  for (const JointOption& it : options) least_ns = std::min(least_ns, overlap_ns(it, window_bytes));
  return least_ns;
}

double JointBounds::bound_ns(const JointOption& option, uint64_t window_bytes,
                             double enough_ns) const {
  const double by_overlap_ns = overlap_ns(option, window_bytes);
  if (by_overlap_ns >= enough_ns) return by_overlap_ns;
  return std::max(by_overlap_ns, in_order_ns(layers_of(option), window_bytes));
}

double JointBounds::any_in_order_ns(uint64_t window_bytes) const {
  return in_order_ns(ideal_layers(), window_bytes);
}

std::vector<UnitCosts> JointBounds::layers_of(const JointOption& option) const {
  std::vector<UnitCosts> layers;
  for (uint32_t i = 0; i < network_.network().layers.size(); ++i) {
    const Candidate& it = network_.chosen(option.candidates, i);
    layers.push_back(layer_costs(it.held_bytes, it.time_ns));
  }
  return layers;
}

// Every layer with the time of its fastest candidate and the size of its smallest.
std::vector<UnitCosts> JointBounds::ideal_layers() const {
  std::vector<UnitCosts> layers;
  for (uint32_t i = 0; i < network_.network().layers.size(); ++i) {
    double least_ns = std::numeric_limits<double>::infinity();
    uint64_t least_bytes = UINT64_MAX;
    const Node& node = network_.instance().nodes[NetworkInstance::node_of_layer(i)];
    for (const Candidate& it : node.candidates) {
      least_ns = std::min(least_ns, it.time_ns);
      least_bytes = std::min(least_bytes, it.held_bytes);
    }
    layers.push_back(layer_costs(least_bytes, least_ns));
  }
  return layers;
}

UnitCosts JointBounds::layer_costs(uint64_t weight_bytes, double compute_ns) const {
  const double read_ns = network_.settings().read_ns(static_cast<double>(weight_bytes));
  return {.size_bytes = weight_bytes,
          .read_ns = static_cast<uint64_t>(read_ns),
          .kernel_ns = static_cast<uint64_t>(compute_ns)};
}

double JointBounds::in_order_ns(const std::vector<UnitCosts>& layers, uint64_t window_bytes) const {
  const double window_ns = network_.settings().read_ns(static_cast<double>(window_bytes));
  const auto ahead_ns = static_cast<uint64_t>(window_ns) + 1;
  return static_cast<double>(pipeline::least_delay_in_order_ns(layers, ahead_ns));
}

}  // namespace weightpager::plan
