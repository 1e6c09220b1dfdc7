// See demand.h.
#include "runtime/serve/demand.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "pager/base/units.h"
#include "runtime/ops/cpu/convolution.h"

namespace weightpager::serve {
namespace {

using network::Network;
using pipeline::TileableLayer;
using pipeline::UnitCosts;

/// Describes the largest tile of the finest cut, which any ring must hold.
std::string forcing_tile(const Network& network, const std::vector<TileableLayer>& layers) {
  const auto tiles = pipeline::tiles_in_pages(layers, {.tile_bytes_max = os_page_bytes});
  const auto largest = std::max_element(
      tiles.begin(), tiles.end(),
      [](const auto& a, const auto& b) { return a.costs.size_bytes < b.costs.size_bytes; });
  return fmt::format("{} of the {} channels of {} are the largest tile",
                     largest->end_channel - largest->first_channel,
                     layers[largest->layer].output_channels,
                     describe_layer(network, largest->layer));
}

/// What determines the least budget: the two largest neighbours, or the number of blocks.
std::string forcing_blocks(const Network& network, const budget::BlockedNetwork& costs,
                           uint32_t blocks) {
  if (blocks != budget::any_number_of_blocks) return fmt::format("{} blocks", blocks);
  size_t first = 0;
  uint64_t largest_bytes = 0;
  for (size_t i = 0; i + 1 < costs.layers.size(); ++i) {
    const uint64_t bytes = costs.layers[i].size_bytes + costs.layers[i + 1].size_bytes;
    if (bytes <= largest_bytes) continue;
    largest_bytes = bytes;
    first = i;
  }
  if (costs.layers.size() == 1) return describe_layer(network, 0);
  return fmt::format("{} and {} are next to each other", describe_layer(network, first),
                     describe_layer(network, first + 1));
}

}  // namespace

std::vector<TileableLayer> tileable_layers(const Network& network,
                                           std::span<const plan::LayerChoice> choices,
                                           std::span<const UnitCosts> layer_costs) {
  std::vector<TileableLayer> layers;
  for (size_t i = 0; i < layer_costs.size(); ++i) {
    TileableLayer layer = {.costs = layer_costs[i]};
    layer.costs.size_bytes = round_up(layer.costs.size_bytes, os_page_bytes);
    const bool can_be_cut = network::can_be_cut(network.layers[i]) &&
                            (choices.empty() || choices[i].has_plain_weights());
    const auto channels = static_cast<uint32_t>(network.layers[i].channels_with_bias());
    layer.output_channels = can_be_cut ? channels : 1;
    layer.channel_step = ops::channel_step(network.layers[i]);
    layers.push_back(layer);
  }
  return layers;
}

NetworkDemand demand_of(const Network& network, const std::string& name,
                        std::span<const plan::LayerChoice> choices,
                        std::span<const UnitCosts> layer_costs,
                        const budget::WindowPlanSettings& settings) {
  const auto layers = tileable_layers(network, choices, layer_costs);
  auto windows = budget::WindowPlans::make(layers, settings);
  NetworkDemand demand = {.claim = {.name = name,
                                    .least_bytes = windows.delay_steps().least_bytes(),
                                    .forced_by = forcing_tile(network, layers)},
                          .delay_steps = windows.delay_steps(),
                          .windows = std::move(windows)};
  for (const TileableLayer& layer : layers) {
    demand.claim.model_bytes += layer.costs.size_bytes;
    demand.claim.latency_ns += layer.costs.kernel_ns;
  }
  return demand;
}

NetworkDemand demand_in_blocks(const Network& network, const std::string& name,
                               const budget::BlockedNetwork& costs, const TimeLimit& limit,
                               uint32_t blocks) {
  budget::BlockSteps steps = budget::block_delay_steps(costs, limit, blocks);
  NetworkDemand demand = {.claim = {.name = name,
                                    .least_bytes = steps.delay_steps.least_bytes(),
                                    .forced_by = forcing_blocks(network, costs, blocks)},
                          .delay_steps = std::move(steps.delay_steps),
                          .ends = std::move(steps.ends),
                          .exact_from_bytes = steps.exact_from_bytes,
                          .excess_max = steps.excess_max};
  for (const budget::LayerCosts& layer : costs.layers) {
    demand.claim.model_bytes += layer.size_bytes;
    demand.claim.latency_ns += layer.kernel_ns;
  }
  return demand;
}

budget::Goal goal_of_delays(SharingGoal goal) {
  return goal == SharingGoal::mean_slowdown ? budget::Goal::sum : budget::Goal::largest;
}

double delay_weight(SharingGoal goal, double urgency, uint64_t period_ns, uint64_t latency_ns) {
  if (goal == SharingGoal::largest_latency) return urgency;
  const uint64_t goal_ns = period_ns > 0 ? period_ns : latency_ns;
  return 1e6 * urgency / static_cast<double>(std::max<uint64_t>(goal_ns, 1));
}

}  // namespace weightpager::serve
