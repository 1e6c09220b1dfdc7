// What a network asks of a memory budget, and what it does with what it gets.
//
// Problem. Whoever divides memory among networks needs of each the least that it runs with, what
// makes it so, and how fast it is with how much. All of that follows from what its layers cost.
//
// Cost: that of WindowPlans; tens of milliseconds for 160 layers.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "pager/base/result.h"
#include "runtime/budget/shares.h"
#include "runtime/budget/window_plans.h"
#include "runtime/network/network.h"
#include "runtime/pipeline/tiles.h"
#include "runtime/pipeline/timeline.h"
#include "runtime/plan/layer_choice.h"

namespace weightpager::serve {

/// By layer; sizes are the costs', in whole pages. `choices`: a plan's, or none.
std::vector<pipeline::TileableLayer> tileable_layers(
    const network::Network& network, std::span<const plan::LayerChoice> choices,
    std::span<const pipeline::UnitCosts> layer_costs);

struct NetworkDemand {
  budget::Claim claim;
  budget::WindowPlans windows;
};

/// Of a network that has weights. The claim's urgency and weight are the ordinary ones.
NetworkDemand demand_of(const network::Network& network, const std::string& name,
                        std::span<const plan::LayerChoice> choices,
                        std::span<const pipeline::UnitCosts> layer_costs,
                        const budget::WindowPlanSettings& settings);

/// What joint budgets are to make small. A slowdown is the share of the time in memory, or of the
/// period, that a network takes.
enum class SharingGoal { mean_slowdown, largest_slowdown, largest_latency };

budget::Goal goal_of_delays(SharingGoal goal);
/// A claim's weight. A slowdown counts in millionths, so that whole numbers are fine enough.
double delay_weight(SharingGoal goal, double urgency, uint64_t period_ns, uint64_t latency_ns);

}  // namespace weightpager::serve
