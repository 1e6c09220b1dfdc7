// A network's demand on a memory budget: the least memory that it needs, and its delay for each
// window, which it uses for a ring of layers or tiles, or for two of SwapNet's blocks.
//
// Problem. To divide memory among networks, one must know three things of each: the least memory
// that it runs with, the layer that needs so much, and its delay in each window. All three follow
// from the costs of its layers.
//
// Cost: as for WindowPlans; tens of milliseconds for 160 layers.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "pager/base/result.h"
#include "pager/base/time_limit.h"
#include "runtime/budget/shares.h"
#include "runtime/budget/window_plans.h"
#include "runtime/network/network.h"
#include "runtime/pipeline/tiles.h"
#include "runtime/pipeline/timeline.h"
#include "runtime/plan/layer_choice.h"

namespace weightpager::serve {

/// The network's layers as they can be cut into tiles, by layer. Their sizes are those in
/// `layer_costs`, rounded up to whole pages. `choices`: those of a plan, or none.
std::vector<pipeline::TileableLayer> tileable_layers(
    const network::Network& network, std::span<const plan::LayerChoice> choices,
    std::span<const pipeline::UnitCosts> layer_costs);

struct NetworkDemand {
  budget::Claim claim;
  /// By the bytes of the window.
  budget::StepFunction delay_steps;
  /// Nothing: the network runs in blocks.
  std::optional<budget::WindowPlans> windows;
  /// Blocks: as in budget::BlockSteps.
  std::vector<budget::BlockEnds> ends = {};
  std::optional<uint64_t> exact_from_bytes = 0;
  double excess_max = 0;
};

/// The demand of a network that has weights. The claim's urgency and weight are the defaults.
NetworkDemand demand_of(const network::Network& network, const std::string& name,
                        std::span<const plan::LayerChoice> choices,
                        std::span<const pipeline::UnitCosts> layer_costs,
                        const budget::WindowPlanSettings& settings);

/// The demand of a network that runs in blocks. Its delays are of inferences that begin with
/// nothing in memory. `limit`: for the search of blocks. `blocks`:
/// the number of blocks.
NetworkDemand demand_in_blocks(const network::Network& network, const std::string& name,
                               const budget::BlockedNetwork& costs, const TimeLimit& limit,
                               uint32_t blocks = budget::any_number_of_blocks);

/// The quantity that joint budgets make as small as possible. A slowdown is a network's delay
/// divided by its period, or, without a period, by its delay with all weights in memory.
enum class SharingGoal { mean_slowdown, largest_slowdown, largest_latency };

budget::Goal goal_of_delays(SharingGoal goal);
/// A claim's weight. Slowdowns count in millionths, so that whole numbers are precise enough.
double delay_weight(SharingGoal goal, double urgency, uint64_t period_ns, uint64_t latency_ns);

}  // namespace weightpager::serve
