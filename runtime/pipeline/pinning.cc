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

// The range of the rates that are tried.
constexpr int octaves_below_one = 4;
constexpr int octaves_above_one = 6;
// For a network with n times as many layers, trials are n times as coarse, up to a limit.
constexpr size_t layers_tried_finely = 1000;
constexpr double coarsest_ring_ratio = 0.5;

uint64_t largest_unit(Costs costs) {
  uint64_t largest = 0;
  for (const UnitCosts& unit : costs) largest = std::max(largest, unit.size_bytes);
  return largest;
}

// Rings for units of up to `ring_bytes`. Larger units are pinned, but on their way to the device
// they pass through the host's ring.
Rings rings_of(Pipeline pipeline, Costs costs, uint64_t ring_bytes) {
  if (pipeline == Pipeline::two_stage) return {.host_bytes = ring_bytes};
  return {.host_bytes = std::max(ring_bytes, round_up(largest_unit(costs), ring_step_bytes)),
          .device_bytes = ring_bytes};
}

// An upper bound of the cost that so many bytes of pins, or of a ring, can save: the units that
// save most per byte, the last one in part.
class MostSaved {
 public:
  MostSaved(Costs costs, uint64_t UnitCosts::*cost_ns) {
    struct Saving {
      double size_bytes;
      double cost_ns;
    };
    std::vector<Saving> savings;
    for (const UnitCosts& unit : costs) {
      if (unit.size_bytes == 0) continue;
      savings.push_back({static_cast<double>(unit.size_bytes), static_cast<double>(unit.*cost_ns)});
    }
    std::sort(savings.begin(), savings.end(), [](const Saving& left, const Saving& right) {
      return left.cost_ns * right.size_bytes > right.cost_ns * left.size_bytes;
    });
    for (const Saving& it : savings) {
      bytes_.push_back(bytes_.back() + it.size_bytes);
      saved_ns_.push_back(saved_ns_.back() + it.cost_ns);
    }
  }

  uint64_t ns(uint64_t bytes_max) const {
    const auto bytes = static_cast<double>(bytes_max);
    const auto above =
        static_cast<size_t>(std::upper_bound(bytes_.begin(), bytes_.end(), bytes) - bytes_.begin());
    if (above == bytes_.size()) return static_cast<uint64_t>(std::ceil(saved_ns_.back()));
    const double share = (bytes - bytes_[above - 1]) / (bytes_[above] - bytes_[above - 1]);
    const double last_ns = saved_ns_[above] - saved_ns_[above - 1];
    return static_cast<uint64_t>(std::ceil(saved_ns_[above - 1] + share * last_ns));
  }

 private:
  // Sums over the first 0, 1, 2, … of the units, those that save most per byte first.
  std::vector<double> bytes_ = {0};
  std::vector<double> saved_ns_ = {0};
};

// The pinned units, the rest of the budget, and the work that is left for each pass.
class Pins {
 public:
  Pins(Costs costs, const LeastWork& work, uint64_t budget_bytes)
      : costs_(costs), is_pinned_(costs.size()), left_bytes_(budget_bytes), work_(work) {}

  // Pins the units that do not fit the ring. Returns false if the budget is too small for them.
  bool pin_larger_than(uint64_t ring_bytes) {
    for (size_t i = 0; i < costs_.size(); ++i) {
      if (costs_[i].size_bytes > ring_bytes && !pin(i)) return false;
    }
    return true;
  }

  // Pins units whose reads kernels do not hide: kernels earn `rate` nanoseconds of read time per
  // nanosecond.
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

  const std::vector<bool>& is_pinned() const { return is_pinned_; }
  uint64_t least_delay_ns() const { return work_.delay_ns(); }

 private:
  bool pin(size_t unit) {
    if (costs_[unit].size_bytes > left_bytes_) return false;
    left_bytes_ -= costs_[unit].size_bytes;
    is_pinned_[unit] = true;
    work_.pin(costs_[unit]);
    return true;
  }

  Costs costs_;
  std::vector<bool> is_pinned_;
  uint64_t left_bytes_;
  LeastWork work_;
};

class Planner {
 public:
  Planner(Pipeline pipeline, Costs costs, uint64_t budget_bytes, const PlanTrials& trials,
          Inferences inferences)
      : pipeline_(pipeline),
        costs_(costs),
        budget_bytes_(budget_bytes),
        trials_(trials),
        inferences_(inferences),
        work_(least_work(costs)),
        reads_saved_(costs, &UnitCosts::read_ns),
        taken_saved_(costs, &UnitCosts::taken_ns),
        delay_ns_max_(trials.delay_ns_max) {}

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
  // A lower bound of the delay, whichever units are pinned.
  uint64_t least_delay_ns(uint64_t pinned_bytes_max) const {
    LeastWork work = work_;
    work.reads_ns -= std::min(work.reads_ns, reads_saved_.ns(pinned_bytes_max));
    work.taken_ns -= std::min(work.taken_ns, taken_saved_.ns(pinned_bytes_max));
    return work.delay_ns();
  }

  void try_ring(uint64_t ring_bytes) {
    if (is_done()) return;
    const Rings rings = rings_of(pipeline_, costs_, ring_bytes);
    if (rings.bytes() > budget_bytes_) return;
    const uint64_t pinned_bytes_max = budget_bytes_ - rings.bytes();
    if (least_delay_ns(pinned_bytes_max) > delay_ns_max_) return;
    Pins needed(costs_, work_, pinned_bytes_max);
    if (!needed.pin_larger_than(ring_bytes)) return;
    Pins before = needed;
    consider(rings, before);
    for (int step = -octaves_below_one * trials_.rates_per_octave;
         step <= octaves_above_one * trials_.rates_per_octave && !is_done(); ++step) {
      Pins pins = needed;
      pins.pin_unearned(std::exp2(static_cast<double>(step) / trials_.rates_per_octave));
      if (pins.is_pinned() == before.is_pinned()) continue;
      consider(rings, pins);
      before = std::move(pins);
    }
  }

  bool is_done() const { return best_ && trials_.is_over(); }

  void consider(const Rings& rings, const Pins& pins) {
    if (pins.least_delay_ns() > delay_ns_max_) return;
    const std::vector<UnitCosts> later = after_first_pass(costs_, pins.is_pinned());
    if (least_delay_in_order_ns(later, reads_saved_.ns(rings.bytes())) > delay_ns_max_) return;
    WindowPlan plan{.rings = rings,
                    .is_pinned = pins.is_pinned(),
                    .pinned_bytes = 0,
                    .delay_ns = delay_ns(pipeline_, later, rings, inferences_),
                    .bytes_per_pass = bytes_per_pass(later)};
    if (plan.delay_ns > delay_ns_max_) return;
    plan.pinned_bytes = pipeline::bytes_per_pass(costs_) - plan.bytes_per_pass;
    const auto worth = [](const WindowPlan& p) {
      return std::tuple(p.delay_ns, p.bytes_per_pass, p.window_bytes());
    };
    if (best_ && worth(plan) >= worth(*best_)) return;
    delay_ns_max_ = plan.delay_ns;
    best_ = std::move(plan);
  }

  Pipeline pipeline_;
  Costs costs_;
  uint64_t budget_bytes_;
  PlanTrials trials_;
  Inferences inferences_;
  const LeastWork work_;
  const MostSaved reads_saved_;
  const MostSaved taken_saved_;
  uint64_t delay_ns_max_;  // a plan must be at least as fast
  std::optional<WindowPlan> best_;
};

}  // namespace

PlanTrials for_layers(const PlanTrials& trials, size_t layers) {
  if (layers <= layers_tried_finely) return trials;
  const double times = static_cast<double>(layers) / layers_tried_finely;
  PlanTrials coarser = trials;
  coarser.ring_ratio = std::max(std::pow(trials.ring_ratio, times),
                                std::min(coarsest_ring_ratio, trials.ring_ratio));
  coarser.rates_per_octave = std::max(1, static_cast<int>(trials.rates_per_octave / times));
  return coarser;
}

Result<WindowPlan> plan_window(Pipeline pipeline, Costs costs, uint64_t budget_bytes,
                               const PlanTrials& trials, Inferences inferences) {
  WP_ASSERT(pipeline == Pipeline::asynchronous || pipeline == Pipeline::two_stage);
  auto plan = Planner(pipeline, costs, budget_bytes, trials, inferences).run();
  if (plan) return *std::move(plan);
  if (trials.delay_ns_max != UINT64_MAX) {
    return fail(fmt::format("no plan of a window of {} takes {} ns or less",
                            format_size(budget_bytes), trials.delay_ns_max),
                "allow more time");
  }
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
