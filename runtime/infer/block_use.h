// Uses a window as SwapNet (Wang et al., 2024) does: a network runs block by block, with two blocks
// in memory.
//
// Problem. The paper's runtime reads a block (some layers in a row) while the one before computes,
// and lets a block go when it is computed. Its memory is that of two neighbouring blocks. To
// compare with it, and to check what blocks are planned to take, the runtime must run them.
//
// Idea. A block is a unit of the pipeline, like a layer or a tile, so the schedule, the executor
// and the checks of weights are the same. Two things differ: a unit has several layers, and no more
// than two units are under way, whatever the ring has room for. Layers lie in the file in their
// order. So a block is one read, and it is assembled by reference: kernels get the addresses of
// their weights in it.
//
// Reads do not go on across inferences: as in the paper, each begins with nothing in memory.
//
// Cost: the planner's (budget/blocks.h); nothing is read.
#pragma once

#include <span>

#include "pager/base/result.h"
#include "runtime/budget/blocks.h"
#include "runtime/infer/window_use.h"
#include "runtime/network/weight_source.h"
#include "runtime/pipeline/timeline.h"

namespace weightpager::infer {

/// SwapNet's m.
inline constexpr uint32_t blocks_in_memory = 2;

/// The costs of the layers as parts of blocks. Sizes are in whole pages and have what lies between
/// two layers' weights in the file: so two blocks never take more memory than their layers' sizes
/// say. Fails if layers do not lie in the file in their order. `layer_costs`: by layer, without
/// `per_block`.
Result<budget::BlockedNetwork> blocked_network(const network::WeightSource& source,
                                               std::span<const pipeline::UnitCosts> layer_costs,
                                               const budget::PerBlock& per_block);

/// The use of a window that `request.blocks` asks for. With a window of 0: the least. Fails if the
/// window is too small, if a block would have 4 GiB, or if the pipeline cannot run blocks; the
/// error says so.
Result<WindowUse> use_blocks(const network::WeightSource& source,
                             std::span<const pipeline::UnitCosts> layer_costs,
                             const WindowRequest& request);

}  // namespace weightpager::infer
