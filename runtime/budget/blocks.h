// A network in blocks: which runs of layers to bring in together, when two blocks fit the budget.
//
// Problem. SwapNet (Wang et al., 2024) reads a network block by block: while one computes, the next
// is read, and the one before leaves; two neighbouring blocks must fit the budget. Where to cut? It
// takes n = ceil(2 · model / budget) blocks and looks through all cuts into n. The number is a
// guess: with more memory n falls, and the network gets slower.
//
// Idea. One channel brings blocks in and lets them go, one processor computes them:
//
//   in(1), in(2), out(1), in(3), out(2), … follow each other on the channel
//   out(i) also waits for ex(i); ex(i) for in(i) and ex(i−1); the end of ex(n) is the delay
//
// What the blocks so far mean to those that follow is three numbers: where the last block begins
// (its bytes, and what letting it go costs), when the channel is free, and when the processor is.
// Going through the layers, every state that another one beats in all three is dropped. What is
// left at the last layer has the least delay of all partitions into any number of blocks.
//
// Cost: O(layers² · states), some ten states per layer; milliseconds for 300 layers. The paper's
// table has 4 million rows for 5 blocks of 100 layers.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "pager/base/result.h"
#include "pager/base/time_limit.h"

namespace weightpager::budget {

/// One layer, without what its block costs for being one.
struct LayerCosts {
  /// 0: nothing to read or to let go, whatever read_ns and release_ns say.
  uint64_t size_bytes = 0;
  uint64_t read_ns = 0;
  uint64_t kernel_ns = 0;
  /// Letting it go.
  uint64_t release_ns = 0;
};

/// On top, for each block that has bytes.
struct PerBlock {
  uint64_t read_ns = 0;
  uint64_t release_ns = 0;
};

struct BlockedNetwork {
  std::vector<LayerCosts> layers;
  PerBlock per_block;
};

/// Blocks in execution order, each by the number after its last layer; the last is the number of
/// layers.
using BlockEnds = std::vector<uint32_t>;

struct BlockPlan {
  BlockEnds ends;
  uint64_t delay_ns = 0;
  /// Of two neighbouring blocks, or of the only one.
  uint64_t peak_bytes = 0;
};

/// What each block costs as one.
std::vector<LayerCosts> block_costs(const BlockedNetwork& network, std::span<const uint32_t> ends);

/// Of these blocks, beginning with nothing in memory.
uint64_t delay_ns(const BlockedNetwork& network, std::span<const uint32_t> ends);
uint64_t peak_bytes(const BlockedNetwork& network, std::span<const uint32_t> ends);
uint64_t peak_bytes(std::span<const LayerCosts> blocks);

/// The least budget for which there are blocks: of all neighbouring layers the largest two. A layer
/// without bytes counts as a neighbour: the one before it leaves before the one behind it comes.
uint64_t least_budget_bytes(const BlockedNetwork& network);
/// The same for so many blocks; there are at least as many layers.
uint64_t least_budget_bytes(const BlockedNetwork& network, uint32_t blocks);

/// The least delay in this budget, if it is at most `delay_max_ns`: the lower that is, the sooner
/// it is answered.
std::optional<BlockPlan> plan_blocks_within(const BlockedNetwork& network, uint64_t budget_bytes,
                                            uint64_t delay_max_ns, const TimeLimit& limit = {});

/// The least delay in this budget; of equal delays the fewest blocks among those that were kept.
/// Fails below `least_budget_bytes`, and says so. Where time is over before, blocks of one layer.
Result<BlockPlan> plan_blocks(const BlockedNetwork& network, uint64_t budget_bytes,
                              const TimeLimit& limit = {});

}  // namespace weightpager::budget
