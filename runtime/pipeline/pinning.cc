// See pinning.h.
#include "runtime/pipeline/pinning.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <tuple>

#include "pager/base/assert.h"
#include "pager/base/units.h"
#include "runtime/pipeline/search.h"

namespace weightpager::pipeline {
namespace {

using Costs = std::span<const UnitCosts>;

// The range of rates that are tried.
constexpr int octaves_below_one = 4;
constexpr int octaves_above_one = 6;

uint64_t largest_unit(Costs costs) {
  uint64_t largest = 0;
  for (const UnitCosts& unit : costs) largest = std::max(largest, unit.size_bytes);
  return largest;
}

// Rings for units of up to `ring_bytes`. Larger ones are pinned, but on their way to the device
// they pass through the host's ring.
Rings rings_of(Pipeline pipeline, Costs costs, uint64_t ring_bytes) {
  if (pipeline == Pipeline::two_stage) return {.host_bytes = ring_bytes};
  return {.host_bytes = std::max(ring_bytes, round_up(largest_unit(costs), ring_step_bytes)),
          .device_bytes = ring_bytes};
}

// The pins themselves, and whether the budget is enough for those that there must be.
class Pins {
 public:
  Pins(Costs costs, uint64_t budget_bytes)
      : costs_(costs), is_pinned_(costs.size()), left_bytes_(budget_bytes) {}

  // What does not fit the ring.
  bool pin_larger_than(uint64_t ring_bytes) {
    for (size_t i = 0; i < costs_.size(); ++i) {
      if (costs_[i].size_bytes > ring_bytes && !pin(i)) return false;
    }
    return true;
  }

  // What kernels do not hide: they earn `rate` nanoseconds of read time per nanosecond.
  void pin_unearned(double rate) {
    double earned_ns = 0;
    for (size_t i = 0; i < costs_.size(); ++i) {
      if (costs_[i].size_bytes > 0 && !is_pinned_[i]) {
        const auto read_ns = static_cast<double>(costs_[i].read_ns);
        const bool is_streamed = earned_ns >= read_ns || !pin(i);
        if (is_streamed) earned_ns = std::max(0.0, earned_ns - read_ns);
      }
      earned_ns += rate * static_cast<double>(costs_[i].kernel_ns);
    }
  }

  std::vector<bool> take() { return std::move(is_pinned_); }

 private:
  bool pin(size_t unit) {
    if (costs_[unit].size_bytes > left_bytes_) return false;
    left_bytes_ -= costs_[unit].size_bytes;
    is_pinned_[unit] = true;
    return true;
  }

  Costs costs_;
  std::vector<bool> is_pinned_;
  uint64_t left_bytes_;
};

class Planner {
 public:
  Planner(Pipeline pipeline, Costs costs, uint64_t budget_bytes, const PlanTrials& trials,
          Inferences inferences)
      : pipeline_(pipeline),
        costs_(costs),
        budget_bytes_(budget_bytes),
        trials_(trials),
        inferences_(inferences) {}

  std::optional<WindowPlan> run() {
    try_ring(0);
    const uint64_t largest_ring_bytes =
        pipeline_ == Pipeline::two_stage ? budget_bytes_ : budget_bytes_ / 2;
    uint64_t ring_bytes = round_down(largest_ring_bytes, ring_step_bytes);
    try_ring(round_up(largest_unit(costs_), ring_step_bytes));
    while (ring_bytes > 0) {
      try_ring(ring_bytes);
      const double smaller = static_cast<double>(ring_bytes) * trials_.ring_ratio;
      ring_bytes = round_down(static_cast<uint64_t>(smaller), ring_step_bytes);
    }
    return std::move(best_);
  }

 private:
  void try_ring(uint64_t ring_bytes) {
    const Rings rings = rings_of(pipeline_, costs_, ring_bytes);
    if (rings.bytes() > budget_bytes_) return;
    Pins needed(costs_, budget_bytes_ - rings.bytes());
    if (!needed.pin_larger_than(ring_bytes)) return;
    std::vector<bool> before = Pins(needed).take();
    consider(rings, before);
    for (int step = -octaves_below_one * trials_.rates_per_octave;
         step <= octaves_above_one * trials_.rates_per_octave; ++step) {
      Pins pins = needed;
      pins.pin_unearned(std::exp2(static_cast<double>(step) / trials_.rates_per_octave));
      std::vector<bool> is_pinned = pins.take();
      if (is_pinned == before) continue;
      consider(rings, is_pinned);
      before = std::move(is_pinned);
    }
  }

  void consider(const Rings& rings, const std::vector<bool>& is_pinned) {
    const std::vector<UnitCosts> later = after_first_pass(costs_, is_pinned);
    if (best_ && least_delay_ns(later) > best_->delay_ns) return;
    WindowPlan plan{.rings = rings,
                    .is_pinned = is_pinned,
                    .pinned_bytes = 0,
                    .delay_ns = delay_ns(pipeline_, later, rings, inferences_),
                    .bytes_per_pass = bytes_per_pass(later)};
    plan.pinned_bytes = pipeline::bytes_per_pass(costs_) - plan.bytes_per_pass;
    const auto worth = [](const WindowPlan& p) {
      return std::tuple(p.delay_ns, p.bytes_per_pass, p.window_bytes());
    };
    if (!best_ || worth(plan) < worth(*best_)) best_ = std::move(plan);
  }

  Pipeline pipeline_;
  Costs costs_;
  uint64_t budget_bytes_;
  PlanTrials trials_;
  Inferences inferences_;
  std::optional<WindowPlan> best_;
};

}  // namespace

Result<WindowPlan> plan_window(Pipeline pipeline, Costs costs, uint64_t budget_bytes,
                               const PlanTrials& trials, Inferences inferences) {
  WP_ASSERT(pipeline == Pipeline::asynchronous || pipeline == Pipeline::two_stage);
  auto plan = Planner(pipeline, costs, budget_bytes, trials, inferences).run();
  if (plan) return *std::move(plan);
  const uint64_t needed_bytes =
      rings_of(pipeline, costs, round_up(largest_unit(costs), ring_step_bytes)).bytes();
  return fail(fmt::format("a window of {} is too small for the {} pipeline of these layers: the "
                          "largest needs {} ({} bytes)",
                          format_size(budget_bytes), name(pipeline), format_size(needed_bytes),
                          needed_bytes),
              "give a larger --window, or split large layers into smaller tiles");
}

std::vector<WorkUnit> work_units(Costs costs, const std::vector<bool>& is_pinned) {
  WP_ASSERT(is_pinned.size() == costs.size());
  std::vector<WorkUnit> units = work_units(costs);
  for (size_t i = 0; i < units.size(); ++i) units[i].is_pinned = is_pinned[i];
  return units;
}

}  // namespace weightpager::pipeline
