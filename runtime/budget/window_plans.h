// A network's delay by its window, as our runtime uses windows: a ring of layers or tiles, the rest
// pinned (runtime/pipeline/pinning.h).
//
// SwapNet keeps two blocks in memory. A ring is the same with as many units as fit: no partition to
// choose, and each unit's space is free as soon as it is computed. Cut into tiles, layers that are
// larger than the budget still run, down to the smallest tile there can be; pinned, bytes of a
// larger window save reads.
//
// Idea. Plans for some budgets between the least and the whole model, more densely where they are
// small; between two of them the smaller one's plan stands. A plan that is slower than that of a
// smaller budget (rings and pins are tried out, not proved best) gives way to it.
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
  /// Besides whole layers, layers in tiles of this are tried; in small budgets smaller ones, too.
  uint64_t tile_bytes_max = 2 << 20;
  uint64_t read_ns_per_tile = 0;
  uint64_t kernel_ns_per_tile = 0;
  /// What a byte that is read takes from the processors that compute: starting reads, taking them
  /// in. 0 where others have the time for that.
  double processor_ns_per_byte = 0;
};

/// One budget's plan, and the units that it is for.
struct WindowChoice {
  std::vector<pipeline::UnitCosts> units;
  pipeline::WindowPlan plan;
};

/// What the choice looks like to others that read from the same disk (shared_disk.h).
SharingNetwork sharing_network(const WindowChoice& choice, uint64_t period_ns,
                               uint64_t deadline_ns);

class WindowPlans {
 public:
  /// Sizes are whole pages; some layer has weights.
  static WindowPlans make(std::span<const pipeline::TileableLayer> layers,
                          const WindowPlanSettings& settings);

  const StepFunction& delay_steps() const { return delay_steps_; }
  /// A plan with the delay that `delay_steps` has for this budget. Of several it is the one that
  /// reads least, which leaves the disk to others. `budget_bytes` is at least the least budget.
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
