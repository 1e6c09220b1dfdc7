// The channel and the processor after some blocks: the recursion of blocks.h, block by block, for
// delays of given blocks and for the search.
#pragma once

#include <algorithm>
#include <cstdint>

#include "runtime/budget/blocks.h"

namespace weightpager::budget {

struct BlockProgress {
  // The block before the last has left and the last one is in, so the next may be read.
  uint64_t channel_free_ns = 0;
  uint64_t computed_ns = 0;

  static BlockProgress first(const LayerCosts& block) {
    return {.channel_free_ns = block.read_ns, .computed_ns = block.read_ns + block.kernel_ns};
  }

  BlockProgress then(const LayerCosts& block, uint64_t release_of_last_ns) const {
    const uint64_t both_ns = std::max(channel_free_ns + block.read_ns, computed_ns);
    return {.channel_free_ns = both_ns + release_of_last_ns,
            .computed_ns = both_ns + block.kernel_ns};
  }
};

}  // namespace weightpager::budget
