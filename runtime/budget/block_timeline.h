// When each block is read, computed and let go: the recursion of blocks.h written out, for pictures
// and for what is in memory at a time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/budget/blocks.h"

namespace weightpager::budget {

struct BlockSpan {
  uint64_t begin_ns = 0;
  uint64_t end_ns = 0;
};

struct BlockTimes {
  BlockSpan read;
  BlockSpan kernel;
  BlockSpan release;
};

/// By block, beginning with nothing in memory. The last kernel ends after `delay_ns`.
std::vector<BlockTimes> block_timeline(std::span<const LayerCosts> blocks);

}  // namespace weightpager::budget
