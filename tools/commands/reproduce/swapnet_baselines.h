// What SwapNet is compared with: everything in memory, pruned networks, channels in groups.
//
// The paper's DInf and TPrg leave a copy in the page cache, and on the GPU a further copy of what
// the CPU has: two or three times the weights (its Section 8.2). TPrg prunes a network until it
// fits. DCha computes a layer's channels in groups, one after the other; the text does not say how
// many groups, or what stays in memory.
#pragma once

#include <cstdint>

#include "tools/commands/reproduce/swapnet_inputs.h"

namespace weightpager::tools::swapnet {

/// All weights `size_bytes`, with the copies that PyTorch has of them.
uint64_t in_memory_bytes(const PublishedModel& known, uint64_t size_bytes);

/// So many blocks, each as near to the same size as whole layers allow (w/o-pat-sch).
budget::BlockEnds equal_blocks(const budget::BlockSums& sums, uint32_t blocks);

/// With two groups: all weights in the page cache, and the half in use. Published memory is within
/// some percent of that.
uint64_t by_channel_bytes(uint64_t size_bytes);

/// The network with a part of its channels everywhere but in its input and in its classes.
struct PrunedNetwork {
  /// Of the channels; not rounded to whole ones.
  double width = 1;
  uint64_t size_bytes = 0;
  /// Of the operations.
  double operations_share = 1;
};
/// The widest one of at most `bytes_max`.
PrunedNetwork pruned(const PaperNetwork& network, uint64_t bytes_max);

}  // namespace weightpager::tools::swapnet
