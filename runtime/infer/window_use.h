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
#include "runtime/budget/blocks.h"
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

/// How a block that was read becomes weights that kernels compute from: SwapNet's section 5.
enum class Assembly {
  /// Kernels get the addresses at which the block was read.
  by_reference,
  /// The way that SwapNet compares itself with: memory of the block's size is taken anew, and every
  /// layer's weights are copied to it. For comparisons, on processors.
  by_copy,
};

/// Layers are read, computed and let go in blocks, two of which are in memory (block_use.h).
struct BlockRequest {
  /// The costs of each block besides those of its layers.
  budget::PerBlock per_block;
  /// Instead of the blocks that take the least time in the window.
  budget::BlockEnds ends;
  Assembly assembly = Assembly::by_reference;
};

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
  /// For `two_stage`, or `asynchronous`, which copies each block once more. The window is for all
  /// rings; nothing is cut into tiles. Nothing: a ring of layers or tiles.
  std::optional<BlockRequest> blocks;
};

struct WindowUse {
  /// In execution order; each layer is one piece or several.
  std::vector<network::Piece> pieces;
  /// The bytes in the file of what is read and computed at once: of each piece, or of each block.
  std::vector<pipeline::UnitBytes> units;
  /// The expected costs of each unit from the second inference on, when pinned units are not read.
  std::vector<pipeline::UnitCosts> costs;
  pipeline::Rings rings;
  /// Each unit is a block of these. Their delay is of an inference that begins with nothing in
  /// memory, or with all weights if there is one block, which stays.
  std::optional<budget::BlockPlan> blocks = {};

  std::span<const network::Piece> pieces_of(size_t unit) const;
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
