// See block_timeline.h.
#include "runtime/budget/block_timeline.h"

#include <algorithm>

namespace weightpager::budget {

std::vector<BlockTimes> block_timeline(std::span<const LayerCosts> blocks) {
  std::vector<BlockTimes> times(blocks.size());
  uint64_t channel_free_ns = 0, computed_ns = 0;
  const auto release = [&](size_t i, uint64_t not_before_ns) {
    const uint64_t begin_ns = std::max(not_before_ns, times[i].kernel.end_ns);
    times[i].release = {begin_ns, begin_ns + blocks[i].release_ns};
    channel_free_ns = times[i].release.end_ns;
  };
  for (size_t i = 0; i < blocks.size(); ++i) {
    times[i].read = {channel_free_ns, channel_free_ns + blocks[i].read_ns};
    const uint64_t begin_ns = std::max(times[i].read.end_ns, computed_ns);
    computed_ns = begin_ns + blocks[i].kernel_ns;
    times[i].kernel = {begin_ns, computed_ns};
    if (i > 0) {
      release(i - 1, times[i].read.end_ns);
    } else {
      channel_free_ns = times[i].read.end_ns;
    }
  }
  if (!blocks.empty()) release(blocks.size() - 1, channel_free_ns);
  return times;
}

}  // namespace weightpager::budget
