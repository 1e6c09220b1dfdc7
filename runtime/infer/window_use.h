// What a window is used for: how large the rings, which layers in tiles, what is pinned.
//
// Problem. The user says how much memory weights may take, and in which pipeline they come. A ring
// must hold the largest layer, which in some networks is most of what they would give; where there
// is more than a ring needs, the rest should save reading.
//
// Idea. If the largest layer does not leave room for two more beside it, layers are cut into tiles
// of a third of a ring (half of one in lock step). Sizes of rings and pins come from the equations
// of runtime/pipeline, with what layers cost: measured if somebody has measured, otherwise
// estimated from bytes and operations.
//
// Cost: milliseconds; nothing is read.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "pager/base/result.h"
#include "runtime/memory/activations.h"
#include "runtime/network/network.h"
#include "runtime/network/weight_source.h"
#include "runtime/pipeline/arena_overlay.h"
#include "runtime/pipeline/executor.h"
#include "runtime/pipeline/schedule.h"
#include "runtime/pipeline/timeline.h"
#include "runtime/plan/joint_plan.h"

namespace weightpager::infer {

enum class DeviceKind { cpu, cuda };

struct WindowRequest {
  pipeline::Pipeline pipeline = pipeline::Pipeline::two_stage;
  /// A GPU has memory of its own: its rings come in steps (pipeline::gpu_ring_step_bytes), as far
  /// as the window allows, and what stays there goes through a ring of the host's.
  DeviceKind device = DeviceKind::cpu;
  /// Memory for weights. 0: the least that the pipeline takes without tiles.
  uint64_t window_bytes = 0;
  /// Larger layers are cut, whatever the window; nothing: as the window makes it necessary.
  std::optional<uint64_t> tile_bytes_max;
  /// Instead of `window_bytes`: rings of these sizes, and nothing pinned.
  std::optional<pipeline::Rings> rings;
  /// `two_stage` on processors: weights may also lie in the activation arena
  /// (pipeline/arena_overlay.h). False for the pipelines of the Demand Layering paper.
  bool uses_overlay = true;
  /// What the whole layers cost, by layer; empty: estimated.
  std::span<const pipeline::UnitCosts> layer_costs;
};

struct WindowUse {
  /// In execution order; each layer is one piece or several.
  std::vector<network::Piece> pieces;
  /// Of the pieces.
  std::vector<pipeline::UnitBytes> units;
  /// What each of them is expected to cost from the second inference on: pinned ones are not read.
  std::vector<pipeline::UnitCosts> costs;
  pipeline::Rings rings;
};

/// Floating point operations of one inference, two to a multiplication with its addition.
uint64_t operations(const network::Layer& layer);

/// Fails if the window is too small for the pipeline, and says what would do.
Result<WindowUse> use_window(const network::Network& network, const network::WeightSource& source,
                             const WindowRequest& request);

/// What activations use of their arena, and when. Weights may lie in the rest.
std::vector<pipeline::ArenaUse> arena_uses(const memory::ActivationLayout& layout);

/// For `two_stage` on processors: units for which the ring has no room in time lie in the
/// activation arena from now on. Some pieces are joined.
void add_arena_overlay(WindowUse& use, const network::WeightSource& source,
                       const memory::ActivationLayout& layout);

/// How many of the bytes that one inference reads go to the activation arena.
uint64_t overlay_bytes(const WindowUse& use);

/// As a plan has it. `source` has the weights in the plan's forms. Fails where the plan's ring or
/// what it pins is none of these weights': a plan's file may come from anyone.
Result<WindowUse> use_plan(const network::WeightSource& source, const plan::JointPlan& plan);

}  // namespace weightpager::infer
