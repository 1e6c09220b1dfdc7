// A network in blocks: which runs of layers to bring in together, where two blocks must fit the
// budget.
//
// Problem. SwapNet (Wang et al., 2024) reads a network block by block. While one block computes,
// the next is read and the one before leaves, so two neighbouring blocks must fit the budget. The
// question is where to cut. SwapNet takes n = ceil(2 · model / budget) blocks and looks through all
// cuts into n. This number is a guess: with more memory n falls, and the network gets slower.
//
// Idea. One channel brings blocks in and lets them go, and one processor computes them:
//
//   in(1), in(2), out(1), in(3), out(2), … follow each other on the channel
//   out(i) also waits for ex(i); ex(i) waits for in(i) and ex(i−1); the end of ex(n) is the delay
//
// For the blocks that follow, three numbers say all about the blocks so far: where the last block
// begins (which gives its bytes and the cost of letting it go), when the channel is free, and when
// the processor is. The planner goes through the layers, and drops every state that another one
// beats in all three. The best state left at the last layer has the least delay of all partitions
// into any number of blocks.
//
// Cost: O(layers² · states), some ten states per layer; milliseconds for 300 layers. The paper's
// table has 4 million rows for 5 blocks of 100 layers. Where the search takes too long, a coarser
// one takes O(layers) of time and memory: neighbouring layers are first joined to groups, each much
// smaller than the budget, blocks are cut only between groups, and states that hardly differ count
// as one. A bound tells how far that may be from the best. An exact search that would keep more
// than 128 MiB of states ends as if time were over.
//
// Where the number of blocks is given, states are told apart by the number of blocks so far, too.
// That takes as many times longer as there are numbers that a layer can have.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "pager/base/result.h"
#include "pager/base/time_limit.h"

namespace weightpager::budget {

/// The costs of one layer, without the costs that there are once per block.
struct LayerCosts {
  /// If 0, nothing is read or let go, whatever read_ns and release_ns say.
  uint64_t size_bytes = 0;
  uint64_t read_ns = 0;
  uint64_t kernel_ns = 0;
  /// The cost of letting the layer go.
  uint64_t release_ns = 0;
};

/// The costs that each block with bytes has besides those of its layers.
struct PerBlock {
  uint64_t read_ns = 0;
  uint64_t release_ns = 0;
};

struct BlockedNetwork {
  std::vector<LayerCosts> layers;
  PerBlock per_block;
};

/// Blocks in execution order, each by the number of the layer after its last one. The last number
/// is the number of layers.
using BlockEnds = std::vector<uint32_t>;

/// In place of a number of blocks: as many as are best.
inline constexpr uint32_t any_number_of_blocks = 0;
/// Each layer is a block.
BlockEnds one_layer_each(size_t layers);

struct BlockPlan {
  BlockEnds ends;
  uint64_t delay_ns = 0;
  /// The most bytes in memory: of two neighbouring blocks, or of the only one.
  uint64_t peak_bytes = 0;
  /// False if the search ended before it was known that no other blocks take less time.
  bool is_best = true;
};

/// Sums over the layers before each layer, so that a block's costs are differences.
class BlockSums {
 public:
  explicit BlockSums(const BlockedNetwork& network);

  uint32_t layers() const { return static_cast<uint32_t>(sums_.size() - 1); }
  const LayerCosts& all() const { return sums_.back(); }
  uint64_t bytes(uint32_t begin, uint32_t end) const {
    return sums_[end].size_bytes - sums_[begin].size_bytes;
  }
  /// Without the costs that there are once per block.
  LayerCosts layers_between(uint32_t begin, uint32_t end) const;
  LayerCosts block(uint32_t begin, uint32_t end) const;
  /// The least that the costs per block add up to when layers are read in blocks of at most
  /// `budget_bytes`.
  uint64_t starts_ns(const LayerCosts& layers, uint64_t budget_bytes) const;
  /// The costs of each block as a whole.
  std::vector<LayerCosts> blocks(std::span<const uint32_t> ends) const;

 private:
  PerBlock per_block_;
  std::vector<LayerCosts> sums_;
};

/// The costs of each block as a whole. For many cuts of one network, use BlockSums::blocks().
std::vector<LayerCosts> block_costs(const BlockedNetwork& network, std::span<const uint32_t> ends);

/// The delay of these blocks, beginning with nothing in memory.
uint64_t delay_ns(const BlockedNetwork& network, std::span<const uint32_t> ends);
uint64_t peak_bytes(const BlockedNetwork& network, std::span<const uint32_t> ends);
uint64_t peak_bytes(std::span<const LayerCosts> blocks);

/// The least budget for which there are blocks: the two neighbouring layers that are largest
/// together. A layer without bytes counts as a neighbour: the layer before it leaves before the
/// layer behind it comes.
uint64_t least_budget_bytes(const BlockedNetwork& network);
/// The least budget for this number of blocks. The network has at least as many layers.
uint64_t least_budget_bytes(const BlockedNetwork& network, uint32_t blocks);

/// Fails below the least budget for this number of blocks, or for any; the error names it.
Status check_block_budget(const BlockedNetwork& network, uint64_t budget_bytes,
                          uint32_t blocks = any_number_of_blocks);

/// The blocks with the least delay in this budget, if it is at most `delay_max_ns`: the lower that
/// is, the sooner there is an answer. Nothing, too, where time or memory is over before that.
std::optional<BlockPlan> plan_blocks_within(const BlockedNetwork& network, uint64_t budget_bytes,
                                            uint64_t delay_max_ns, const TimeLimit& limit = {},
                                            uint32_t blocks = any_number_of_blocks);

/// The blocks with the least delay in this budget; of equal delays, the fewest blocks among those
/// that were kept. With a given number of blocks (at most the number of layers), the best of all
/// cuts into so many. Fails like `check_block_budget`. Where time or memory is over before the best
/// is known, the result of `plan_blocks_coarsely`.
Result<BlockPlan> plan_blocks(const BlockedNetwork& network, uint64_t budget_bytes,
                              const TimeLimit& limit = {}, uint32_t blocks = any_number_of_blocks);

/// Blocks with a good delay, soon. `check_block_budget` passes.
BlockPlan plan_blocks_coarsely(const BlockedNetwork& network, uint64_t budget_bytes,
                               uint32_t blocks = any_number_of_blocks);

/// No blocks in this budget have a smaller delay.
uint64_t delay_bound_ns(const BlockedNetwork& network, uint64_t budget_bytes);

}  // namespace weightpager::budget
