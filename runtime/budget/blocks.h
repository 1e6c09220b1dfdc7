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
// table has 4 million rows for 5 blocks of 100 layers. Where that takes too long, layers that
// follow each other are joined to groups first, each much smaller than the budget, blocks are cut
// between groups only, and states that hardly differ are one: O(layers) of time and memory, and how
// far that may be from the best is known from a bound. A search for the best that would keep more
// than 128 MiB of states ends as if time were over.
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
  /// False: others may take less time, as the search ended before that was known.
  bool is_best = true;
};

/// Sums over the layers before each, so that a block's costs are differences.
class BlockSums {
 public:
  explicit BlockSums(const BlockedNetwork& network);

  uint32_t layers() const { return static_cast<uint32_t>(sums_.size() - 1); }
  const LayerCosts& all() const { return sums_.back(); }
  uint64_t bytes(uint32_t begin, uint32_t end) const {
    return sums_[end].size_bytes - sums_[begin].size_bytes;
  }
  /// Without what there is once per block.
  LayerCosts layers_between(uint32_t begin, uint32_t end) const;
  LayerCosts block(uint32_t begin, uint32_t end) const;
  /// What there is at least, once per block, to read layers in blocks of at most so many bytes.
  uint64_t starts_ns(const LayerCosts& layers, uint64_t budget_bytes) const;
  /// What each block costs as one.
  std::vector<LayerCosts> blocks(std::span<const uint32_t> ends) const;

 private:
  PerBlock per_block_;
  std::vector<LayerCosts> sums_;
};

/// What each block costs as one. Of many cuts of one network: BlockSums::blocks().
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
/// it is answered. Nothing, too, where time or memory is over before that is known.
std::optional<BlockPlan> plan_blocks_within(const BlockedNetwork& network, uint64_t budget_bytes,
                                            uint64_t delay_max_ns, const TimeLimit& limit = {});

/// The least delay in this budget; of equal delays the fewest blocks among those that were kept.
/// Fails below `least_budget_bytes`, and says so. Where time or memory is over before that is
/// known, `plan_blocks_of_groups`.
Result<BlockPlan> plan_blocks(const BlockedNetwork& network, uint64_t budget_bytes,
                              const TimeLimit& limit = {});

/// A good delay, soon. `budget_bytes` is the least or more.
BlockPlan plan_blocks_of_groups(const BlockedNetwork& network, uint64_t budget_bytes);

/// No blocks in this budget have a smaller delay.
uint64_t delay_bound_ns(const BlockedNetwork& network, uint64_t budget_bytes);

}  // namespace weightpager::budget
