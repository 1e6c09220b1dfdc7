// See window_plans.h.
#include "runtime/budget/window_plans.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <tuple>

#include "pager/base/assert.h"
#include "pager/base/units.h"
#include "runtime/pipeline/search.h"

namespace weightpager::budget {
namespace {

using pipeline::Pipeline;
using pipeline::UnitCosts;

constexpr int budgets_tried = 48;
/// A fifth of the rings and a quarter of the rates that would be tried for a single plan.
constexpr pipeline::PlanTrials few_trials = {.ring_ratio = 0.8, .rates_per_octave = 4};

uint64_t largest_unit_bytes(const std::vector<UnitCosts>& units) {
  uint64_t largest_bytes = 0;
  for (const UnitCosts& unit : units) largest_bytes = std::max(largest_bytes, unit.size_bytes);
  return largest_bytes;
}

// Whole layers, tiles of the size asked for, and smaller tiles as long as these make the largest
// piece smaller.
std::vector<std::vector<UnitCosts>> cuts_of(std::span<const pipeline::TileableLayer> layers,
                                            const WindowPlanSettings& settings) {
  std::vector<std::vector<UnitCosts>> cuts(1);
  for (const pipeline::TileableLayer& layer : layers) cuts[0].push_back(layer.costs);
  for (const uint64_t tile_bytes : {settings.tile_bytes_max, settings.tile_bytes_max / 4,
                                    settings.tile_bytes_max / 16, uint64_t{os_page_bytes}}) {
    auto tiles = pipeline::costs_of(pipeline::tiles_in_pages(
        layers, {.tile_bytes_max = std::max<uint64_t>(tile_bytes, os_page_bytes),
                 .read_ns_per_tile = settings.read_ns_per_tile,
                 .kernel_ns_per_tile = settings.kernel_ns_per_tile}));
    if (largest_unit_bytes(tiles) < largest_unit_bytes(cuts.back())) {
      cuts.push_back(std::move(tiles));
    }
  }
  return cuts;
}

// Each budget is the same factor above the one before, in whole pages.
std::vector<uint64_t> budgets_between(uint64_t least_bytes, uint64_t most_bytes) {
  std::vector<uint64_t> budgets;
  const double ratio = static_cast<double>(most_bytes) / static_cast<double>(least_bytes);
  for (int i = 0; i < budgets_tried; ++i) {
    const double factor = std::pow(ratio, static_cast<double>(i) / (budgets_tried - 1));
    const auto bytes = static_cast<uint64_t>(static_cast<double>(least_bytes) * factor);
    budgets.push_back(round_down(bytes, pipeline::ring_step_bytes));
  }
  budgets.front() = least_bytes;
  budgets.back() = most_bytes;
  budgets.erase(std::unique(budgets.begin(), budgets.end()), budgets.end());
  return budgets;
}

std::optional<WindowChoice> best_choice(const std::vector<std::vector<UnitCosts>>& cuts,
                                        uint64_t budget_bytes) {
  const pipeline::PlanTrials trials = pipeline::for_layers(few_trials, cuts.front().size());
  std::optional<WindowChoice> best;
  for (const std::vector<UnitCosts>& units : cuts) {
    auto plan = pipeline::plan_window(Pipeline::two_stage, units, budget_bytes, trials);
    if (!plan) continue;  // for tiles, not for whole layers
    if (!best || plan->delay_ns < best->plan.delay_ns) best = {units, std::move(*plan)};
    const bool is_fine = &units != &cuts.front() && 4 * largest_unit_bytes(units) <= budget_bytes;
    if (is_fine) break;
  }
  return best;
}

uint64_t least_bytes_of(const std::vector<std::vector<UnitCosts>>& cuts) {
  uint64_t least_bytes = UINT64_MAX;
  for (const auto& units : cuts) least_bytes = std::min(least_bytes, largest_unit_bytes(units));
  WP_ASSERT(least_bytes > 0);
  return least_bytes;
}

}  // namespace

SharingNetwork sharing_network(const WindowChoice& choice, uint64_t period_ns,
                               uint64_t deadline_ns) {
  auto schedule =
      pipeline::Schedule::make(pipeline::work_units(choice.units, choice.plan.is_pinned),
                               {.pipeline = Pipeline::two_stage, .rings = choice.plan.rings});
  WP_ASSERT(schedule);
  return {*std::move(schedule), choice.units, period_ns, deadline_ns};
}

WindowPlans WindowPlans::make(std::span<const pipeline::TileableLayer> layers,
                              const WindowPlanSettings& settings) {
  const auto cuts = cuts_of(layers, settings);
  const uint64_t model_bytes = pipeline::bytes_per_pass(cuts[0]);
  std::vector<Step> steps;
  std::vector<Choice> choices;
  const auto delay_ns_of = [&settings](const WindowChoice& it) {
    const auto bytes = static_cast<double>(it.plan.bytes_per_pass);
    return it.plan.delay_ns + static_cast<uint64_t>(bytes * settings.processor_ns_per_byte);
  };
  const auto worth = [&delay_ns_of](const WindowChoice& it) {
    return std::tuple(delay_ns_of(it), it.plan.bytes_per_pass);
  };
  for (const uint64_t budget_bytes : budgets_between(least_bytes_of(cuts), model_bytes)) {
    auto choice = best_choice(cuts, budget_bytes);
    WP_ASSERT(choice);
    if (!choices.empty() && worth(*choice) >= worth(choices.back().choice)) continue;
    const uint64_t delay_ns = delay_ns_of(*choice);
    if (steps.empty() || delay_ns < steps.back().delay_ns)
      steps.push_back({budget_bytes, delay_ns});
    choices.push_back({budget_bytes, std::move(*choice)});
  }
  return {StepFunction(std::move(steps)), std::move(choices)};
}

const WindowChoice& WindowPlans::choice(uint64_t budget_bytes) const {
  WP_ASSERT(budget_bytes >= delay_steps_.least_bytes());
  const auto above = std::upper_bound(
      choices_.begin(), choices_.end(), budget_bytes,
      [](uint64_t bytes, const Choice& choice) { return bytes < choice.budget_bytes; });
  return (above - 1)->choice;
}

}  // namespace weightpager::budget
