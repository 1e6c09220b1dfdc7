// Decides how a window is used: the sizes of the rings, the layers that are cut into tiles, and the
// weights that are pinned.
//
// Problem. The user says how much memory weights may take, and which pipeline reads them. A ring
// must hold the largest layer, which in some networks takes most of the memory that the user would
// give. If there is more memory than a ring needs, the rest should save reads.
//
// Idea. If the largest layer does not leave room for two more beside it, layers are cut into tiles
// of a third of a ring (half of one in lock step). The sizes of rings and the pinned weights come
// from the equations of runtime/pipeline and the costs of layers. The costs are measured ones if
// the caller passes them, otherwise they are estimated from bytes and operations.
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
  /// For a GPU, which has memory of its own, the device's ring is rounded to steps
  /// (pipeline::gpu_ring_step_bytes) as far as the window allows, and pinned weights pass through a
  /// ring on the host.
  DeviceKind device = DeviceKind::cpu;
  /// Memory for weights. 0: the least that the pipeline needs without tiles.
  uint64_t window_bytes = 0;
  /// Layers larger than this are cut, whatever the window. Nothing: layers are cut as far as the
  /// window makes it necessary.
  std::optional<uint64_t> tile_bytes_max;
  /// Instead of `window_bytes`: rings of these sizes, and nothing pinned.
  std::optional<pipeline::Rings> rings;
  /// `two_stage` on processors: weights may also lie in the activation arena
  /// (pipeline/arena_overlay.h). False for the pipelines of the Demand Layering paper.
  bool uses_overlay = true;
  /// The costs of whole layers, by layer. Empty: the costs are estimated.
  std::span<const pipeline::UnitCosts> layer_costs;
};

struct WindowUse {
  /// In execution order; each layer is one piece or several.
  std::vector<network::Piece> pieces;
  /// The pieces' bytes in the file, by piece.
  std::vector<pipeline::UnitBytes> units;
  /// The expected costs of each piece from the second inference on, when pinned pieces are not
  /// read.
  std::vector<pipeline::UnitCosts> costs;
  pipeline::Rings rings;
};

/// The layer's floating point operations in one inference. A multiplication with its addition
/// counts as two.
uint64_t operations(const network::Layer& layer);
/// Of all its layers.
uint64_t operations(const network::Network& network);

/// Fails if the window is too small for the pipeline; the error names a window that is large
/// enough.
Result<WindowUse> use_window(const network::Network& network, const network::WeightSource& source,
                             const WindowRequest& request);

/// The parts of the arena that activations use, and when. Weights may lie in the rest.
std::vector<pipeline::ArenaUse> arena_uses(const memory::ActivationLayout& layout);

/// For `two_stage` on processors: units for which the ring has no room in time lie in the
/// activation arena from now on. Some pieces are joined.
void add_arena_overlay(WindowUse& use, const network::WeightSource& source,
                       const memory::ActivationLayout& layout);

/// How many of the bytes that one inference reads go to the activation arena.
uint64_t overlay_bytes(const WindowUse& use);

/// The window's use as a plan describes it. `source` has the weights in the plan's forms. Fails if
/// the plan's ring or pinned bytes cannot belong to these weights: a plan's file may come from
/// anyone.
Result<WindowUse> use_plan(const network::WeightSource& source, const plan::JointPlan& plan);

}  // namespace weightpager::infer
