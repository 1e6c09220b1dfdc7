// A network's delay by its window, as our runtime uses windows: a ring of layers or tiles, the rest
// pinned (runtime/pipeline/pinning.h).
//
// SwapNet keeps two blocks in memory. A ring keeps as many units as fit: there is no partition to
// choose, and each unit's space is free as soon as the unit is computed. In tiles, layers that are
// larger than the budget still run, down to the smallest possible tile. Bytes of a larger window
// that are pinned save reads.
//
// Idea. Plans are made for some budgets between the least and the whole model, more densely where
// budgets are small. Between two of them, the plan of the smaller one holds. Rings and pins are
// tried out, not proved best: if a plan is slower than that of a smaller budget, the latter
// replaces it.
//
// Cost: about a hundred plans with few trials each; tens of milliseconds for 160 layers.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "runtime/budget/shared_disk.h"
#include "runtime/budget/step_function.h"
#include "runtime/pipeline/pinning.h"
#include "runtime/pipeline/tiles.h"

namespace weightpager::budget {

struct WindowPlanSettings {
  /// Layers are tried whole and in tiles of this size; in small budgets in smaller tiles, too.
  uint64_t tile_bytes_max = 2 << 20;
  uint64_t read_ns_per_tile = 0;
  uint64_t kernel_ns_per_tile = 0;
  /// The time that a byte that is read takes from the processors that compute: to start reads, and
  /// to take them in. 0 where other processors have the time for that.
  double processor_ns_per_byte = 0;
};

/// One budget's plan, and the units that it is for.
struct WindowChoice {
  std::vector<pipeline::UnitCosts> units;
  pipeline::WindowPlan plan;
};

/// The choice as a network that shares the disk with others (shared_disk.h).
SharingNetwork sharing_network(const WindowChoice& choice, uint64_t period_ns,
                               uint64_t deadline_ns);

class WindowPlans {
 public:
  /// Sizes are whole pages, and some layer has weights.
  static WindowPlans make(std::span<const pipeline::TileableLayer> layers,
                          const WindowPlanSettings& settings);

  const StepFunction& delay_steps() const { return delay_steps_; }
  /// A plan with the delay that `delay_steps` has for this budget. Of several, the one that reads
  /// least, which leaves the disk to others. `budget_bytes` is at least the least budget.
  const WindowChoice& choice(uint64_t budget_bytes) const;

 private:
  struct Choice {
    uint64_t budget_bytes = 0;
    WindowChoice choice;
  };

  WindowPlans(StepFunction delay_steps, std::vector<Choice> choices)
      : delay_steps_(std::move(delay_steps)), choices_(std::move(choices)) {}

  StepFunction delay_steps_;
  std::vector<Choice> choices_;  // budgets rise, delays and bytes fall
};

}  // namespace weightpager::budget
