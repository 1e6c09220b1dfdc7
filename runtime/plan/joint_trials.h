// Tries a selection in a budget: first its arena, then in the rest of the budget the best way to
// cut its layers, with the best rings and pins for that (pipeline/pinning.h).
//
// Layers are cut only as far as the window makes it necessary.
//
// Cost: an arena once for each selection, and a window for each way to cut. A window ends as soon
// as it cannot be as good as the best one known.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "runtime/pipeline/pinning.h"
#include "runtime/plan/joint_bounds.h"
#include "runtime/plan/joint_network.h"
#include "runtime/plan/joint_plan.h"

namespace weightpager::plan {

class JointTrials {
 public:
  /// `network` outlives this.
  explicit JointTrials(const JointNetwork& network) : network_(network), bounds_(network) {}

  /// Nothing if the budget is too small for the selection, or if the selection cannot be as fast as
  /// `finest` asks for (PlanTrials::delay_ns_max).
  std::optional<JointPlan> try_out(const JointOption& option, uint64_t budget_bytes,
                                   const pipeline::PlanTrials& finest);

  struct Arena {
    uint64_t bytes = 0;
    uint64_t activation_bytes = 0;
  };
  Arena arena_of(const std::vector<uint32_t>& candidates);
  /// The largest piece of weights when all weights are cut as small as possible.
  pipeline::Tile largest_piece(const std::vector<uint32_t>& candidates) const;

  /// Rings and pins, tried for one selection cut in one way.
  size_t windows_tried() const { return windows_tried_; }

 private:
  struct Cut {
    std::vector<pipeline::Tile> tiles;
    std::vector<pipeline::UnitCosts> costs;
    /// The largest tile of the layers that smaller tiles can be made of.
    uint64_t largest_in_tiles_bytes = 0;
  };
  struct Window {
    Cut cut;
    pipeline::WindowPlan plan;
  };

  Arena arena_of(const std::vector<LayerChoice>& choices,
                 const std::vector<uint64_t>& workspace_bytes);
  Cut cut(const std::vector<pipeline::TileableLayer>& layers, uint64_t tile_bytes) const;
  std::optional<Window> best_window(const std::vector<pipeline::TileableLayer>& layers,
                                    uint64_t window_bytes, pipeline::PlanTrials trials);
  uint64_t taken_ns(uint64_t bytes) const;

  const JointNetwork& network_;
  const JointBounds bounds_;
  // By workspaces and layouts, as arena_of() makes the key.
  std::map<std::vector<uint64_t>, Arena> arenas_;
  size_t windows_tried_ = 0;
};

}  // namespace weightpager::plan
